package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// limit is only reached by a test that fails.
const limit = 60 * time.Second

// TestMain lets this program act as the sample, in a separate process.
func TestMain(m *testing.M) {
	if os.Getenv("AS_SAMPLE") != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

var lastPort atomic.Int32

// freePort returns a port below the range from which the kernel chooses ports of connections, so that no
// connection gets it before the sample does. No process is started meanwhile: until its exec it would keep
// the listener open, and reset the first connection to the sample.
func freePort(t *testing.T) int {
	t.Helper()
	lastPort.CompareAndSwap(0, int32(20000+os.Getpid()%10000))
	for {
		port := int(lastPort.Add(1))
		if port > 32000 {
			t.Fatal("no free port")
		}
		if isFree(port) {
			return port
		}
	}
}

func isFree(port int) bool {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	listener, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
	if err != nil {
		return false
	}
	return listener.Close() == nil
}

type sample struct {
	command *exec.Cmd
	output  *bufio.Reader
	port    int
}

func start(t *testing.T, args []string, environment ...string) *sample {
	t.Helper()
	port := freePort(t)
	command := exec.Command(os.Args[0], args...)
	command.Env = append([]string{"AS_SAMPLE=yes", fmt.Sprintf("PORT=%d", port)}, environment...)
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Process.Kill() })
	return &sample{command: command, output: bufio.NewReader(output), port: port}
}

func (s *sample) expect(t *testing.T, want string) {
	t.Helper()
	if line, err := s.output.ReadString('\n'); line != want+"\n" {
		t.Fatalf("%q instead of %q (%v)", line, want, err)
	}
}

func (s *sample) end(t *testing.T) (status int) {
	t.Helper()
	late := time.AfterFunc(limit, func() { _ = s.command.Process.Kill() })
	defer late.Stop()
	_, _ = io.Copy(io.Discard, s.output)
	err := s.command.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return s.command.ProcessState.ExitCode()
}

func (s *sample) get(t *testing.T, agent string) (int, string) {
	t.Helper()
	request, err := http.NewRequest("GET", fmt.Sprintf("http://127.0.0.1:%d/a%%0Ab", s.port), nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("User-Agent", agent)
	client := http.Client{Timeout: limit}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(body)
}

func TestServesAndLogsRequestsButNotProbes(t *testing.T) {
	host, _ := os.Hostname()
	for name, test := range map[string]struct {
		environment []string
		status      int
		greeting    string
	}{
		"plain":    {nil, http.StatusOK, "hello"},
		"greeting": {[]string{"GREETING=good day"}, http.StatusOK, "good day"},
		"unwell":   {[]string{"UNWELL=yes"}, http.StatusServiceUnavailable, "hello"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sample := start(t, nil, test.environment...)
			sample.expect(t, fmt.Sprint("serving on port ", sample.port))
			for _, agent := range []string{"kube-probe/1.36", "browser"} {
				if status, body := sample.get(t, agent); status != test.status || body != test.greeting+" from "+host+"\n" {
					t.Errorf("%d %q", status, body)
				}
			}
			// One line, of the request that was no probe, and the new line of its path is quoted.
			sample.expect(t, `GET "/a\nb"`)
			_ = sample.command.Process.Signal(syscall.SIGTERM)
			sample.expect(t, "stopped in order")
			if status := sample.end(t); status != 0 {
				t.Errorf("it ended with %d", status)
			}
		})
	}
}

func TestRequestInFlightIsAnsweredWhenToldToStop(t *testing.T) {
	t.Parallel()
	sample := start(t, []string{"serve"})
	sample.expect(t, fmt.Sprint("serving on port ", sample.port))
	sample.get(t, "kube-probe/1.36")
	address := fmt.Sprintf("127.0.0.1:%d", sample.port)
	connection, err := net.Dial("tcp4", address)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	_ = connection.SetDeadline(time.Now().Add(limit))
	// The answer waits for the body, which comes after the signal.
	fmt.Fprint(connection, "POST /slow HTTP/1.1\r\nHost: sample\r\nContent-Length: 4\r\n\r\n")
	sample.expect(t, `POST "/slow"`)
	_ = sample.command.Process.Signal(syscall.SIGTERM)
	for began := time.Now(); time.Since(began) < limit; time.Sleep(time.Millisecond) {
		other, err := net.Dial("tcp4", address)
		if err != nil {
			break
		}
		_ = other.Close()
	}
	fmt.Fprint(connection, "body")
	line, err := bufio.NewReader(connection).ReadString('\n')
	if !strings.HasPrefix(line, "HTTP/1.1 200") {
		t.Errorf("the request was lost: %q (%v)", line, err)
	}
	sample.expect(t, "stopped in order")
	if status := sample.end(t); status != 0 {
		t.Errorf("it ended with %d", status)
	}
}

func TestEndsAsAsked(t *testing.T) {
	for command, status := range map[string]int{"crash": 3, "work": 0, "unknown": 2} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			if got := start(t, []string{command}).end(t); got != status {
				t.Errorf("it ended with %d, not %d", got, status)
			}
		})
	}
}

func TestPortThatIsTakenIsAnError(t *testing.T) {
	t.Parallel()
	first := start(t, []string{"serve"})
	first.expect(t, fmt.Sprint("serving on port ", first.port))
	first.get(t, "kube-probe/1.36")
	second := start(t, []string{"serve"}, fmt.Sprintf("PORT=%d", first.port))
	if status := second.end(t); status != 3 {
		t.Errorf("it ended with %d", status)
	}
}

func TestPauseEndsWithSignal(t *testing.T) {
	t.Parallel()
	pause := start(t, []string{"pause"})
	// Told before it listens for signals, it ends by the signal itself; both are an end.
	_ = pause.command.Process.Signal(syscall.SIGTERM)
	if status := pause.end(t); status != 0 && status != -1 {
		t.Errorf("it ended with %d", status)
	}
}
