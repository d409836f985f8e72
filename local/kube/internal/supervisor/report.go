package supervisor

import (
	"encoding/json"
	"os"
	"sync"
	"time"
)

// state is what a step has come to.
type state string

const (
	starting   state = "starting"
	ready      state = "ready"
	restarting state = "restarting"
	stopped    state = "stopped"
	failed     state = "failed"
)

// line is one JSON line on stdout; a person can read it and the parent follows it.
type line struct {
	Step      string `json:"step"`
	State     state  `json:"state"`
	ElapsedMS int64  `json:"elapsed_ms"`
	Message   string `json:"message,omitempty"`
}

// reporter writes lines; components report from their own goroutines.
type reporter struct {
	began time.Time
	mutex sync.Mutex
}

func newReporter() *reporter { return &reporter{began: time.Now()} }

func (r *reporter) say(step string, state state, message string) {
	content, err := json.Marshal(line{
		Step:      step,
		State:     state,
		ElapsedMS: time.Since(r.began).Milliseconds(),
		Message:   message,
	})
	if err != nil {
		return
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	// Where nobody listens any more there is nobody to tell.
	_, _ = os.Stdout.Write(append(content, '\n'))
}
