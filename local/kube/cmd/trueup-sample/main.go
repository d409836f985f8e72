// Command trueup-sample is the program inside the sample images of a local cluster: a small web
// server, and a few failure modes for tests.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

const usage = `usage: sample [COMMAND]

  serve          serve HTTP on $PORT (8080) with $GREETING until stopped (the default command);
                 with $UNWELL, every response is an error
  crash          print a message and exit with status 3
  eat            allocate memory until the kernel kills the process
  work           print a message and exit with status 0
  pause          wait until stopped
`

func main() {
	command := "serve"
	if len(os.Args) > 1 {
		command = os.Args[1]
	}
	switch command {
	case "serve":
		exit(serve())
	case "crash":
		exit(errors.New("crashing, as requested"))
	case "eat":
		eat()
	case "work":
		fmt.Println("the work is done")
	case "pause":
		<-stopped().Done()
	default:
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "sample:", err)
		os.Exit(3)
	}
}

// stopped ends with the first signal. The first process of a container gets none of these signals
// unless it handles them.
func stopped() context.Context {
	ctx, _ := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	return ctx
}

func serve() error {
	port := os.Getenv("PORT")
	if port == "" {
		port = "8080"
	}
	host, _ := os.Hostname()
	greeting := os.Getenv("GREETING")
	if greeting == "" {
		greeting = "hello"
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(response http.ResponseWriter, request *http.Request) {
		if os.Getenv("UNWELL") != "" {
			response.WriteHeader(http.StatusServiceUnavailable)
		}
		// Health checks are not logged. The path is quoted, so that it cannot inject lines.
		if !strings.HasPrefix(request.UserAgent(), "kube-probe/") {
			fmt.Printf("%s %q\n", request.Method, request.URL.Path)
		}
		fmt.Fprintf(response, "%s from %s\n", greeting, host)
	})
	listener, err := net.Listen("tcp", ":"+port)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	ctx := stopped()
	answered := make(chan struct{})
	go func() {
		<-ctx.Done()
		_ = server.Shutdown(context.Background())
		close(answered)
	}()
	fmt.Println("serving on port", port)
	// Returns as soon as the shutdown begins, while requests may still be in flight.
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	<-answered
	fmt.Println("stopped in order")
	return nil
}

func eat() {
	fmt.Println("allocating memory, as requested")
	var kept [][]byte
	for {
		block := make([]byte, 1<<20)
		for index := range block {
			block[index] = 1
		}
		kept = append(kept, block)
		_ = kept
	}
}
