package supervisor

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// programs copies this program into a folder, under the names of the components.
func programs(t *testing.T) (kube string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for _, name := range []string{"trueup-kube", "trueup-kwok"} {
		name = filepath.Join(folder, name)
		if os.Link(self, name) == nil {
			continue
		}
		// Another file system.
		content, err := os.ReadFile(self)
		if err == nil {
			err = os.WriteFile(name, content, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(folder, "trueup-kube")
}

// supervised is a supervisor in a separate process.
type supervised struct {
	dir     string
	command *exec.Cmd
	ended   chan error
	mutex   sync.Mutex
	lines   []line
}

func supervise(t *testing.T, kube, dir string, args ...string) *supervised {
	t.Helper()
	s := &supervised{dir: dir, ended: make(chan error, 1)}
	s.command = exec.Command(kube, append([]string{"run", "--dir", dir, "--nodes", "2"}, args...)...)
	output, err := s.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.command.Process.Kill() })
	go func() { s.ended <- s.follow(t, output) }()
	return s
}

func (s *supervised) follow(t *testing.T, output io.Reader) error {
	scanner := bufio.NewScanner(output)
	for scanner.Scan() {
		var said line
		if err := json.Unmarshal(scanner.Bytes(), &said); err != nil {
			t.Errorf("%v in %s", err, scanner.Text())
		}
		s.mutex.Lock()
		s.lines = append(s.lines, said)
		s.mutex.Unlock()
	}
	return s.command.Wait()
}

// reported are all lines until now.
func (s *supervised) reported() []line {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return slices.Clone(s.lines)
}

// states are the states that a step reported, in order.
func (s *supervised) states(step string) (states []state) {
	for _, line := range s.reported() {
		if line.Step == step {
			states = append(states, line.State)
		}
	}
	return states
}

func (s *supervised) journal() []string {
	content, _ := os.ReadFile(filepath.Join(s.dir, "journal"))
	return strings.Split(strings.TrimSpace(string(content)), "\n")
}

func (s *supervised) noted(line string) (count int) {
	for _, noted := range s.journal() {
		if noted == line {
			count++
		}
	}
	return count
}

func (s *supervised) until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for began := time.Now(); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > limit {
			t.Fatalf("never happened: %s; reported: %+v; journal: %q", what, s.reported(), s.journal())
		}
	}
}

func (s *supervised) untilReady(t *testing.T) readyFile {
	t.Helper()
	s.until(t, "ready", func() bool { return slices.Contains(s.states("cluster"), ready) })
	var file readyFile
	content, err := os.ReadFile(filepath.Join(s.dir, "ready.json"))
	if err == nil {
		err = json.Unmarshal(content, &file)
	}
	if err != nil || file.PID != s.command.Process.Pid {
		t.Fatalf("%+v: %v", file, err)
	}
	return file
}

// stop sends SIGTERM to the supervisor, and returns what the components logged from then on.
func (s *supervised) stop(t *testing.T) []string {
	t.Helper()
	before := len(s.journal())
	_ = s.command.Process.Signal(syscall.SIGTERM)
	s.wait(t, 0)
	if left := alive(s.dir); len(left) > 0 {
		t.Errorf("still there: %q", left)
	}
	if exists(filepath.Join(s.dir, "ready.json")) {
		t.Error("a stopped cluster says that it is ready")
	}
	return s.journal()[before:]
}

func (s *supervised) wait(t *testing.T, status int) {
	t.Helper()
	select {
	case <-s.ended:
	case <-time.After(limit):
		t.Fatal("it does not end")
	}
	if got := s.command.ProcessState.ExitCode(); got != status {
		t.Errorf("it ended with %d, not %d: %+v", got, status, s.reported())
	}
}

func call(kube string, args ...string) (status int, said string) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	command := exec.CommandContext(ctx, kube, args...)
	output, _ := command.CombinedOutput()
	return command.ProcessState.ExitCode(), string(output)
}

func TestClusterStartsAndStopsInOrder(t *testing.T) {
	t.Parallel()
	kube, dir := programs(t), filepath.Join(t.TempDir(), "cluster")
	cluster := supervise(t, kube, dir)
	file := cluster.untilReady(t)
	if file.Version != "v0.0.0-pretended" || file.RealNode || file.NoNode != "" || file.Kubeconfig != filepath.Join(dir, "kubeconfig") {
		t.Errorf("%+v", file)
	}
	cluster.until(t, "all components", func() bool { return len(alive(dir)) == len(components) })

	// Each server is ready before its clients start; the clients start in any order.
	journal := cluster.journal()
	servers := []string{"start etcd", "answer etcd", "start kube-apiserver", "answer kube-apiserver"}
	if len(journal) < len(servers) || !slices.Equal(journal[:len(servers)], servers) {
		t.Errorf("it started as %q", journal)
	}
	for _, name := range components[2:] {
		if !slices.Contains(journal[len(servers):], "start "+name) {
			t.Errorf("%s was not started: %q", name, journal)
		}
	}
	if created := cluster.noted("POST /api/v1/nodes"); created != 3 {
		t.Errorf("%d nodes were created: %q", created, journal)
	}

	if status, said := call(kube, "probe", "--dir", dir); status != 0 {
		t.Errorf("it does not answer: %s", said)
	}
	for _, command := range []string{"run", "clean"} {
		if status, said := call(kube, command, "--dir", dir); status != 1 || !strings.Contains(said, "already runs on "+dir) {
			t.Errorf("%s takes the folder of a running cluster: %d %s", command, status, said)
		}
	}
	if now := cluster.untilReady(t); now != file {
		t.Errorf("the refused commands changed %+v to %+v", file, now)
	}

	ends := cluster.stop(t)
	want := []string{`end kube-apiserver beside ["etcd"]`, `end etcd beside []`}
	if len(ends) != 5 || !slices.Equal(ends[3:], want) {
		t.Errorf("it stopped as %q", ends)
	}
	for _, name := range components {
		if states := cluster.states(name); states[0] != starting || states[len(states)-1] != stopped || slices.Contains(states, restarting) {
			t.Errorf("%s: %q", name, states)
		}
	}
	if states := cluster.states("cluster"); !slices.Equal(states, []state{ready, stopped}) {
		t.Errorf("the cluster: %q", states)
	}
	if status, _ := call(kube, "probe", "--dir", dir); status != 1 {
		t.Errorf("a stopped cluster answers: %d", status)
	}
	if status, said := call(kube, "clean", "--dir", dir); status != 0 {
		t.Errorf("%s", said)
	}
}

func TestComponentsAreRestartedAndEndWithTheirSupervisor(t *testing.T) {
	t.Parallel()
	kube, dir := programs(t), filepath.Join(t.TempDir(), "cluster")
	first := supervise(t, kube, dir)
	address := first.untilReady(t).Server
	first.until(t, "the scheduler", func() bool { return first.noted("start kube-scheduler") == 1 })
	killed := kill(t, dir, "kube-scheduler")
	first.until(t, "the second start", func() bool { return first.noted("start kube-scheduler") == 2 })
	if killed != 1 || !slices.Equal(first.states("kube-scheduler"), []state{starting, restarting}) {
		t.Errorf("%d killed, reported as %q", killed, first.states("kube-scheduler"))
	}
	for _, line := range first.reported() {
		if line.State == restarting && !strings.Contains(line.Message, filepath.Join(dir, "log", "kube-scheduler.log")) {
			t.Errorf("nothing says where to look: %s", line.Message)
		}
	}

	_ = first.command.Process.Kill()
	<-first.ended
	first.until(t, "the end of all components", func() bool { return len(alive(dir)) == 0 })

	second := supervise(t, kube, dir)
	if file := second.untilReady(t); file.Server != address {
		t.Errorf("%s became %s: kubeconfigs that were handed out are lost", address, file.Server)
	}
	second.stop(t)
}

// kill kills the component of a folder by its name, like a crash.
func kill(t *testing.T, dir, name string) (count int) {
	t.Helper()
	entries, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		cwd, _ := os.Readlink(filepath.Join(entry, "cwd"))
		content, _ := os.ReadFile(filepath.Join(entry, "cmdline"))
		args := strings.Split(string(content), "\x00")
		var pid int
		if _, err := fmt.Sscanf(filepath.Base(entry), "%d", &pid); err == nil && cwd == dir && len(args) > 1 && args[1] == name {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			count++
		}
	}
	return count
}

func TestStopDuringTheStartEndsWhatWasStarted(t *testing.T) {
	t.Parallel()
	kube, dir := programs(t), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "never-ready"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cluster := supervise(t, kube, dir)
	cluster.until(t, "the API server", func() bool { return cluster.noted("start kube-apiserver") == 1 })
	ends := cluster.stop(t)
	if want := []string{`end kube-apiserver beside ["etcd"]`, `end etcd beside []`}; !slices.Equal(ends, want) {
		t.Errorf("%q", ends)
	}
	if states := cluster.states("cluster"); !slices.Equal(states, []state{stopped}) {
		t.Errorf("%q", states)
	}
}

func TestClientThatDoesNotEndIsKilledBeforeTheServersStop(t *testing.T) {
	t.Parallel()
	kube, dir := programs(t), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "refuse-kwok"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cluster := supervise(t, kube, dir)
	cluster.untilReady(t)
	cluster.until(t, "all components", func() bool { return len(alive(dir)) == len(components) })
	ends := cluster.stop(t)
	if want := []string{`end kube-apiserver beside ["etcd"]`, `end etcd beside []`}; len(ends) != 4 || !slices.Equal(ends[2:], want) {
		t.Errorf("%q", ends)
	}
}

func TestClusterGoesOnWithoutARealNode(t *testing.T) {
	t.Parallel()
	// There is no trueup-kubelet next to the program.
	cluster := supervise(t, programs(t), t.TempDir(), "--real-node")
	if file := cluster.untilReady(t); file.RealNode || !strings.Contains(file.NoNode, "trueup-kubelet") {
		t.Errorf("%+v", file)
	}
	if states := cluster.states("node"); !slices.Equal(states, []state{starting, failed}) {
		t.Errorf("%q", states)
	}
	if cluster.noted("DELETE /api/v1/nodes/real-1") != 1 {
		t.Errorf("pods wait for a node that never comes: %q", cluster.journal())
	}
	cluster.stop(t)
}

func TestStartThatCannotBeIsReported(t *testing.T) {
	t.Parallel()
	kube, dir := programs(t), t.TempDir()
	for name, content := range map[string]string{"ports.json": "{", "ready.json": "{}"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cluster := supervise(t, kube, dir)
	cluster.wait(t, 1)
	if lines := cluster.reported(); len(lines) != 1 || lines[0].State != failed || !strings.Contains(lines[0].Message, filepath.Join(dir, "ports.json")) {
		t.Errorf("%+v", lines)
	}
	if exists(filepath.Join(dir, "ready.json")) {
		t.Error("the cluster of an earlier run seems to be there")
	}
	if err := os.Remove(filepath.Join(filepath.Dir(kube), "trueup-kwok")); err != nil {
		t.Fatal(err)
	}
	if status, said := call(kube, "run", "--dir", filepath.Join(dir, "other")); status != 1 || !strings.Contains(said, "trueup-kwok") {
		t.Errorf("%d %s", status, said)
	}
}
