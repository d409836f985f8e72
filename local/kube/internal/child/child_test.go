package child

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"trueup.dev/local/kube/internal/parts"
	"trueup.dev/local/kube/internal/place"
)

// limit is only reached by a failing test; a process that a test has to kill lives longer than that.
const (
	limit    = 60 * time.Second
	lifetime = 3 * limit
)

// self is this program; components work in another folder, so its path is absolute.
var self, _ = os.Executable()

// TestMain lets this program act as the supervised component, or as a supervisor that is killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[0] == "supervisor" {
		dir := place.Dir(os.Args[1])
		Start(dir, component(self, "obey"), func(error, time.Duration) {})
		time.Sleep(lifetime)
		os.Exit(1)
	}
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		os.Exit(play(os.Args[1]))
	}
	os.Exit(m.Run())
}

// play is a component. It runs in the folder of its cluster and adds a line to `runs` when it is up.
func play(role string) int {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	alive, err := os.Create("alive")
	if err == nil {
		err = syscall.Flock(int(alive.Fd()), syscall.LOCK_EX)
	}
	if err == nil {
		err = os.WriteFile("environment", []byte(strings.Join(os.Environ(), "\n")), 0o600)
	}
	var runs *os.File
	if err == nil {
		runs, err = os.OpenFile("runs", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	}
	if err == nil {
		_, err = runs.WriteString(strconv.Itoa(os.Getpid()) + "\n")
	}
	if err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		return 1
	}
	os.Stdout.WriteString("said on stdout\n")
	os.Stderr.WriteString("said on stderr\n")
	late := time.After(lifetime)
	for {
		select {
		case <-signals:
			if role == "obey" {
				_ = os.WriteFile("ended", nil, 0o600)
				return 0
			}
		case <-late:
			return 1
		default:
			if role == "fail" {
				return 7
			}
			time.Sleep(time.Millisecond)
		}
	}
}

func component(program, role string) parts.Part {
	return parts.Part{Name: "component", Program: program, Args: []string{role}}
}

func newDir(t *testing.T) place.Dir {
	t.Helper()
	dir, err := place.Make(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func read(dir place.Dir, name string) string {
	content, _ := os.ReadFile(filepath.Join(string(dir), name))
	return string(content)
}

func runs(dir place.Dir) []string { return strings.Fields(read(dir, "runs")) }

func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for began := time.Now(); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > limit {
			t.Fatalf("never happened: %s", what)
		}
	}
}

func stop(t *testing.T, child *Child, grace time.Duration) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		child.Stop(grace)
	}()
	select {
	case <-done:
	case <-time.After(grace + limit):
		t.Fatal("it does not stop")
	}
}

// isGone returns whether no component of this folder runs: the kernel releases its lock when it ends.
func isGone(dir place.Dir) bool {
	alive, err := os.Open(filepath.Join(string(dir), "alive"))
	if err != nil {
		return false
	}
	defer alive.Close()
	return syscall.Flock(int(alive.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}

func TestPausesDoubleUntilARunWasHealthy(t *testing.T) {
	const short, healthy = time.Second, healthyRun + 1
	var backoff backoff
	for number, step := range []struct{ ran, pause time.Duration }{
		{short, 500 * time.Millisecond},
		{short, 1 * time.Second},
		{healthyRun, 2 * time.Second},
		{short, 4 * time.Second},
		{short, 8 * time.Second},
		{short, 10 * time.Second},
		{short, 10 * time.Second},
		{healthy, 500 * time.Millisecond},
		{healthy, 500 * time.Millisecond},
		{short, 1 * time.Second},
	} {
		if pause := backoff.after(step.ran); pause != step.pause {
			t.Errorf("step %d: a pause of %s, not of %s", number, pause, step.pause)
		}
	}
}

func TestDiedComponentIsStartedAgain(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	child := Start(dir, component(self, "obey"), func(error, time.Duration) {})
	until(t, "the first start", func() bool { return len(runs(dir)) == 1 })
	pid, err := strconv.Atoi(runs(dir)[0])
	if err != nil {
		t.Fatal(err)
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
	until(t, "the second start", func() bool { return len(runs(dir)) == 2 })
	stop(t, child, limit)
	if !isGone(dir) {
		t.Error("it still runs")
	}
}

func TestUnexpectedEndIsReportedWithItsCause(t *testing.T) {
	for name, test := range map[string]struct {
		part  parts.Part
		cause func(error) bool
	}{
		"it fails": {component(self, "fail"), func(cause error) bool {
			var exit *exec.ExitError
			return errors.As(cause, &exit) && exit.ExitCode() == 7
		}},
		"it cannot be started": {component("/no/such/program", ""), func(cause error) bool {
			return errors.Is(cause, os.ErrNotExist)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			type end struct {
				cause error
				pause time.Duration
			}
			ends := make(chan end, 100)
			child := Start(newDir(t), test.part, func(cause error, pause time.Duration) { ends <- end{cause, pause} })
			select {
			case first := <-ends:
				if !test.cause(first.cause) || first.pause != firstPause {
					t.Errorf("reported as %v with a pause of %s", first.cause, first.pause)
				}
			case <-time.After(limit):
				t.Error("never reported")
			}
			stop(t, child, limit)
		})
	}
}

func TestStopDuringAPauseDoesNotWaitForItsEnd(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	wanted, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		keepRunning(wanted, t.Context(), dir, component(self, "fail"), &backoff{next: time.Hour}, func(error, time.Duration) { cancel() })
	}()
	select {
	case <-done:
	case <-time.After(limit):
		t.Error("it waits for the end of the pause")
	}
	if found := runs(dir); len(found) != 1 {
		t.Errorf("it was started %d times", len(found))
	}
}

func TestStopAsksBeforeItKills(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	child := Start(dir, component(self, "obey"), func(error, time.Duration) { t.Error("reported as a failure") })
	until(t, "the start", func() bool { return len(runs(dir)) == 1 })
	stop(t, child, limit)
	if _, err := os.Stat(filepath.Join(string(dir), "ended")); err != nil {
		t.Error("it was not asked to end")
	}
	if !isGone(dir) {
		t.Error("it still runs")
	}
}

func TestStopKillsAfterTheGraceTime(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	child := Start(dir, component(self, "refuse"), func(error, time.Duration) { t.Error("reported as a failure") })
	until(t, "the start", func() bool { return len(runs(dir)) == 1 })
	began := time.Now()
	const grace = 50 * time.Millisecond
	stop(t, child, grace)
	if time.Since(began) < grace {
		t.Error("it had no time to end by itself")
	}
	if !isGone(dir) {
		t.Error("it still runs")
	}
}

func TestNothingIsInherited(t *testing.T) {
	t.Setenv("ETCD_NAME", "from the user")
	dir := newDir(t)
	child := Start(dir, component(self, "obey"), func(error, time.Duration) {})
	until(t, "the start", func() bool { return len(runs(dir)) == 1 })
	pid, err := strconv.Atoi(runs(dir)[0])
	if err != nil {
		t.Fatal(err)
	}
	// In a group of its own, Ctrl-C in a terminal does not reach it.
	if group, err := syscall.Getpgid(pid); err != nil || group != pid {
		t.Errorf("its process group is %d (%v)", group, err)
	}
	stop(t, child, limit)
	want := []string{"HOME=" + string(dir), "PATH=" + os.Getenv("PATH")}
	found := strings.Split(read(dir, "environment"), "\n")
	slices.Sort(found)
	if !slices.Equal(found, want) {
		t.Errorf("it got %q", found)
	}
}

func TestComponentEndsWithAKilledSupervisor(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	supervisor := exec.Command(self, string(dir))
	supervisor.Args[0] = "supervisor"
	if err := supervisor.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, "the start", func() bool { return len(runs(dir)) == 1 })
	if isGone(dir) {
		t.Error("it ended before its supervisor")
	}
	_ = supervisor.Process.Kill()
	_ = supervisor.Wait()
	until(t, "the end of the component", func() bool { return isGone(dir) })
	if _, err := os.Stat(filepath.Join(string(dir), "ended")); err == nil {
		t.Error("it was asked to end, although its supervisor was killed")
	}
}

func TestLogIsContinuedUntilItIsLarge(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		size     int64
		setAside bool
	}{
		"no log":    {-1, false},
		"small log": {largeLog, false},
		"large log": {largeLog + 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := newDir(t)
			log := dir.Log("component")
			if test.size >= 0 {
				// A file with a hole: its size takes no space.
				if err := os.WriteFile(log, nil, 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Truncate(log, test.size); err != nil {
					t.Fatal(err)
				}
			}
			child := Start(dir, component(self, "obey"), func(error, time.Duration) {})
			said := int64(len("said on stdout\nsaid on stderr\n"))
			want := said
			if !test.setAside {
				want += max(test.size, 0)
			}
			until(t, "all of the log", func() bool {
				info, err := os.Stat(log)
				return err == nil && info.Size() == want
			})
			stop(t, child, limit)
			old, err := os.Stat(log + ".old")
			if test.setAside != (err == nil) {
				t.Errorf("the old log: %v", err)
			}
			if err == nil && old.Size() != test.size {
				t.Errorf("the old log has %d bytes", old.Size())
			}
		})
	}
}
