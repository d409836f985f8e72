package supervisor

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"trueup.dev/local/kube/internal/node"
	"trueup.dev/local/kube/internal/place"
)

// RunCommand is `trueup-kube run`; it returns the exit status.
func RunCommand(args []string) int {
	var options options
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	flags.StringVar(&options.dir, "dir", "", "folder that holds the whole state of the cluster")
	flags.IntVar(&options.nodes, "nodes", 3, "number of simulated nodes")
	flags.BoolVar(&options.fast, "fast", false, "do not wait for the disk: for clusters that may be lost")
	flags.BoolVar(&options.realNode, "real-node", false, "add a node whose pods really run")
	if status, ok := parse(flags, args, &options.dir); !ok {
		return status
	}
	// The first signal starts a graceful shutdown; it is bounded, so a second one is ignored.
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	report := newReporter()
	if err := run(ctx, options, report); err != nil {
		report.say("cluster", failed, err.Error())
		fmt.Fprintln(os.Stderr, "trueup-kube:", err)
		return 1
	}
	return 0
}

// ProbeCommand is `trueup-kube probe`; it returns 0 if the cluster is ready.
func ProbeCommand(args []string) int {
	var dir string
	flags := flag.NewFlagSet("probe", flag.ContinueOnError)
	flags.StringVar(&dir, "dir", "", "folder that holds the whole state of the cluster")
	if status, ok := parse(flags, args, &dir); !ok {
		return status
	}
	client, err := connect(place.Dir(dir))
	if err == nil {
		err = apiAnswers(client)(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "trueup-kube:", err)
		return 1
	}
	return 0
}

// CleanCommand is `trueup-kube clean`: it stops what a killed supervisor's real node left running.
func CleanCommand(args []string) int {
	var dir string
	flags := flag.NewFlagSet("clean", flag.ContinueOnError)
	flags.StringVar(&dir, "dir", "", "folder that holds the whole state of the cluster")
	if status, ok := parse(flags, args, &dir); !ok {
		return status
	}
	if err := clean(dir); err != nil {
		fmt.Fprintln(os.Stderr, "trueup-kube:", err)
		return 1
	}
	return 0
}

// clean locks the folder first: the node of a running cluster is not cleaned.
func clean(root string) error {
	dir, err := place.Make(root)
	if err != nil {
		return err
	}
	lock, err := dir.Acquire()
	if err != nil {
		return err
	}
	defer lock.Close()
	return node.Clean(dir)
}

func parse(flags *flag.FlagSet, args []string, dir *string) (int, bool) {
	if err := flags.Parse(args); err != nil {
		return 2, false
	}
	if *dir == "" || flags.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "trueup-kube %s: --dir is required, and no other arguments are accepted\n", flags.Name())
		return 2, false
	}
	return 0, true
}
