package supervisor

import (
	"encoding/json"
	"os"
	"sync"
	"time"
)

// state is the state of a step.
type state string

const (
	starting   state = "starting"
	ready      state = "ready"
	restarting state = "restarting"
	stopped    state = "stopped"
	failed     state = "failed"
)

// line is one JSON line on stdout, for people and for the parent process.
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
	// A closed stdout is ignored.
	_, _ = os.Stdout.Write(append(content, '\n'))
}
