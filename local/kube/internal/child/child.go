// Package child runs one component and restarts it when it ends unexpectedly.
package child

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"trueup.dev/local/kube/internal/parts"
	"trueup.dev/local/kube/internal/place"
)

const (
	firstPause = 500 * time.Millisecond
	longPause  = 10 * time.Second
	// A run this long counts as healthy, and the next failure starts with a short pause again.
	healthyRun = 30 * time.Second
	// A log above this size is rotated at the next start.
	largeLog = 16 << 20
)

// Child is a supervised component.
type Child struct {
	cancel context.CancelFunc
	kill   context.CancelFunc
	done   chan struct{}
}

// Start starts supervision. `restarted` is called after every unexpected end.
func Start(dir place.Dir, part parts.Part, restarted func(cause error, pause time.Duration)) *Child {
	wanted, cancel := context.WithCancel(context.Background())
	alive, kill := context.WithCancel(context.Background())
	child := &Child{cancel: cancel, kill: kill, done: make(chan struct{})}
	go func() {
		defer close(child.done)
		defer kill()
		// The kernel sends the parent-death signal when the *thread* that forked ends, so this
		// goroutine keeps its thread for as long as it may have a child.
		runtime.LockOSThread()
		keepRunning(wanted, alive, dir, part, &backoff{}, restarted)
	}()
	return child
}

// Stop sends SIGTERM to the component, and kills it after the grace time.
func (c *Child) Stop(grace time.Duration) {
	c.cancel()
	select {
	case <-c.done:
	case <-time.After(grace):
		c.kill()
		<-c.done
	}
}

func keepRunning(wanted, alive context.Context, dir place.Dir, part parts.Part, backoff *backoff, restarted func(error, time.Duration)) {
	for {
		began := time.Now()
		cause := runOnce(wanted, alive, dir, part)
		if wanted.Err() != nil {
			return
		}
		pause := backoff.after(time.Since(began))
		restarted(cause, pause)
		select {
		case <-wanted.Done():
			return
		case <-time.After(pause):
		}
	}
}

// backoff is the pause before the next restart. It doubles with every run that ends too early.
type backoff struct{ next time.Duration }

// after returns the pause that follows a run of this length.
func (b *backoff) after(ran time.Duration) time.Duration {
	if b.next == 0 || ran > healthyRun {
		b.next = firstPause
	}
	pause := b.next
	b.next = min(2*pause, longPause)
	return pause
}

func runOnce(wanted, alive context.Context, dir place.Dir, part parts.Part) error {
	log, err := openLog(dir.Log(part.Name))
	if err != nil {
		return err
	}
	defer log.Close()

	command := exec.CommandContext(alive, part.Program, part.Args...)
	command.Dir = string(dir)
	// Nothing is inherited: ETCD_* and KWOK_* variables and a ~/.kwok folder would change what runs.
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + string(dir)}
	command.Stdout = log
	command.Stderr = log
	command.SysProcAttr = &syscall.SysProcAttr{
		// Ctrl-C in a terminal reaches only the supervisor, which then shuts down gracefully.
		Setpgid: true,
		// No component survives the supervisor, whatever ends it.
		Pdeathsig: syscall.SIGKILL,
	}
	if err := command.Start(); err != nil {
		return err
	}
	cancelSignal := context.AfterFunc(wanted, func() { _ = command.Process.Signal(syscall.SIGTERM) })
	defer cancelSignal()
	return command.Wait()
}

func openLog(name string) (*os.File, error) {
	if info, err := os.Stat(name); err == nil && info.Size() > largeLog {
		if err := os.Rename(name, name+".old"); err != nil {
			return nil, err
		}
	}
	return os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}
