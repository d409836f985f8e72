// Command trueup-kube is the local Kubernetes in one file: the upstream control-plane programs as
// subcommands, and a supervisor that runs them together.
//
// One multi-call program instead of four keeps the build short and the result small, because the
// programs share almost all of their code.
package main

import (
	"fmt"
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"

	"trueup.dev/local/kube/internal/supervisor"
)

const usage = `usage: trueup-kube COMMAND [flags]

  run --dir DIR [--nodes N] [--fast] [--real-node]
                                       run a local cluster whose state lives in DIR
  probe --dir DIR                      exit 0 if the cluster of DIR is ready
  clean --dir DIR                      stop what the real node of a killed cluster left running
  etcd | kube-apiserver | kube-controller-manager | kube-scheduler [flags]
                                       one upstream component with its own flags
`

func main() {
	if len(os.Args) < 2 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	// Each component reads os.Args itself, so the name of the subcommand becomes the program's name.
	os.Args = os.Args[1:]
	switch os.Args[0] {
	case "run":
		os.Exit(supervisor.RunCommand(os.Args[1:]))
	case "probe":
		os.Exit(supervisor.ProbeCommand(os.Args[1:]))
	case "clean":
		os.Exit(supervisor.CleanCommand(os.Args[1:]))
	case "etcd":
		etcdmain.Main(os.Args)
	case "kube-apiserver":
		os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
	case "kube-controller-manager":
		os.Exit(cli.Run(controllermanager.NewControllerManagerCommand()))
	case "kube-scheduler":
		os.Exit(cli.Run(scheduler.NewSchedulerCommand()))
	default:
		fmt.Fprintf(os.Stderr, "trueup-kube: unknown command %q\n\n%s", os.Args[0], usage)
		os.Exit(2)
	}
}
