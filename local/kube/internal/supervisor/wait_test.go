package supervisor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

var errNotYet = errors.New("not yet")

func TestPollAsksUntilItWorks(t *testing.T) {
	asked := 0
	err := poll(t.Context(), func(context.Context) error {
		if asked++; asked < 3 {
			return errNotYet
		}
		return nil
	})
	if err != nil || asked != 3 {
		t.Errorf("asked %d times: %v", asked, err)
	}
}

func TestPollEndsWithItsContextAndTellsTheLastCause(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	err := poll(ctx, func(asked context.Context) error {
		if deadline, has := asked.Deadline(); !has || time.Until(deadline) > startLimit {
			t.Error("a check may take for ever")
		}
		cancel()
		return errNotYet
	})
	if !errors.Is(err, context.Canceled) || !errors.Is(err, errNotYet) {
		t.Errorf("%v", err)
	}
}

func TestGraceTimesKeepThePromise(t *testing.T) {
	// crates/local kills the supervisor after twelve seconds.
	if most := max(clientGrace, nodeGrace) + 2*serverGrace; most >= 10*time.Second {
		t.Errorf("a stop may take %s", most)
	}
}

func TestWrongArgumentsChangeNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cluster")
	for name, command := range map[string]func([]string) int{"run": RunCommand, "probe": ProbeCommand, "clean": CleanCommand} {
		for _, args := range [][]string{{}, {"--dir", ""}, {"--dir", dir, "more"}, {"--dir", dir, "--unknown"}, {"--dir"}} {
			if status := command(args); status != 2 {
				t.Errorf("%s %q ended with %d", name, args, status)
			}
		}
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("a folder was made")
	}
}
