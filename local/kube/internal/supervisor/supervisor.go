// Package supervisor runs the components of one cluster together: in order, restarted when they
// crash, and stopped in reverse.
package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"k8s.io/client-go/kubernetes"

	"trueup.dev/local/kube/internal/child"
	"trueup.dev/local/kube/internal/node"
	"trueup.dev/local/kube/internal/parts"
	"trueup.dev/local/kube/internal/pki"
	"trueup.dev/local/kube/internal/place"
	"trueup.dev/local/kube/internal/seed"
	"trueup.dev/local/kube/internal/stages"
)

type options struct {
	dir   string
	nodes int
	fast  bool
	// realNode requests a node whose pods really run; without it all pods are simulated.
	realNode bool
}

// readyFile exists while the cluster serves, and has its address.
type readyFile struct {
	Kubeconfig string `json:"kubeconfig"`
	Server     string `json:"server"`
	PID        int    `json:"pid"`
	Version    string `json:"version"`
	// RealNode is whether pods can really run; NoNode is why not, if a real node was requested.
	RealNode bool   `json:"real_node"`
	NoNode   string `json:"no_node,omitempty"`
}

// cluster is the running components, in start order.
type cluster struct {
	dir     place.Dir
	report  *reporter
	running []running
}

// Grace is how long a component may take to stop. The clients of the API server stop together, then the
// two servers one after the other: less than ten seconds in all.
const (
	serverGrace = 3 * time.Second
	clientGrace = 2 * time.Second
	nodeGrace   = 3 * time.Second
)

type running struct {
	name  string
	child *child.Child
	grace time.Duration
}

// run serves until the context ends.
func run(ctx context.Context, options options, report *reporter) error {
	dir, err := place.Make(options.dir)
	if err != nil {
		return err
	}
	lock, err := dir.Acquire()
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := removeReady(dir); err != nil {
		return err
	}
	set, err := prepare(dir, options.fast)
	if err != nil {
		return err
	}

	cluster := &cluster{dir: dir, report: report}
	defer cluster.stop()
	if err := cluster.start(ctx, set, options); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	<-ctx.Done()
	return nil
}

// prepare writes every file that the components read.
func prepare(dir place.Dir, fast bool) (parts.Set, error) {
	ports, err := dir.ChoosePorts()
	if err != nil {
		return parts.Set{}, err
	}
	set, err := parts.NewSet(dir, ports, fast)
	if err != nil {
		return parts.Set{}, err
	}
	if err := pki.Ensure(dir); err != nil {
		return parts.Set{}, err
	}
	if err := pki.WriteKubeconfig(dir, set.Server()); err != nil {
		return parts.Set{}, err
	}
	all, err := stages.All()
	if err != nil {
		return parts.Set{}, err
	}
	return set, place.WriteFile(dir.Stages(), all, 0o600)
}

func (c *cluster) start(ctx context.Context, set parts.Set, options options) error {
	answers, err := etcdAnswers(set)
	if err != nil {
		return err
	}
	c.launch(set.Etcd(), serverGrace)
	if err := c.await(ctx, "etcd", answers); err != nil {
		return err
	}
	client, err := connect(c.dir)
	if err != nil {
		return err
	}
	// A graceful stop would wait for open watches to end, which no client does.
	c.launch(set.APIServer(), serverGrace)
	if err := c.await(ctx, "kube-apiserver", apiAnswers(client)); err != nil {
		return err
	}
	if err := seed.ForgetLeases(ctx, client); err != nil {
		return err
	}
	// Before the provisioner makes it. As another user than root, all nodes are simulated, and the folder
	// may be another user's.
	if os.Geteuid() == 0 {
		if err := node.TakeVolumeFolder(); err != nil {
			return err
		}
	}
	// These retry on their own, so nothing waits for them.
	c.launch(set.ControllerManager(), clientGrace)
	c.launch(set.Scheduler(), clientGrace)
	c.launch(set.Simulator(), clientGrace)

	c.report.say("seed", starting, "")
	if err := seed.Apply(ctx, client, options.nodes); err != nil {
		return err
	}
	c.report.say("seed", ready, "")
	var noNode error
	if options.realNode {
		noNode = c.startNode(ctx, set, client)
	}
	hasNode := options.realNode && noNode == nil
	if !hasNode {
		// Pods that wait for a node that never returns would hide the problem.
		if err := seed.ForgetNode(ctx, client, node.Name); err != nil {
			return err
		}
	}
	if hasNode {
		say := func(text string) { c.report.say("node", failed, text) }
		if err := node.OpenVolumes(ctx, client, say); err != nil {
			return err
		}
	}
	return c.announce(client, set, hasNode, noNode)
}

func (c *cluster) launch(part parts.Part, grace time.Duration) {
	c.report.say(part.Name, starting, "")
	supervised := child.Start(c.dir, part, func(cause error, pause time.Duration) {
		c.report.say(part.Name, restarting, fmt.Sprintf("ended (%v), again in %s; see %s", cause, pause, c.dir.Log(part.Name)))
	})
	c.running = append(c.running, running{name: part.Name, child: supervised, grace: grace})
}

func (c *cluster) await(ctx context.Context, name string, check func(context.Context) error) error {
	if err := poll(ctx, check); err != nil {
		return fmt.Errorf("%s did not become ready, see %s: %w", name, c.dir.Log(name), err)
	}
	c.report.say(name, ready, "")
	return nil
}

func (c *cluster) announce(client *kubernetes.Clientset, set parts.Set, hasNode bool, noNode error) error {
	version, err := client.Discovery().ServerVersion()
	if err != nil {
		return fmt.Errorf("cannot read the version of the API server: %w", err)
	}
	file := readyFile{
		Kubeconfig: c.dir.Kubeconfig(),
		Server:     set.Server(),
		PID:        os.Getpid(),
		Version:    version.GitVersion,
		RealNode:   hasNode,
	}
	if noNode != nil {
		file.NoNode = noNode.Error()
	}
	content, err := json.Marshal(file)
	if err != nil {
		return err
	}
	if err := place.WriteFile(c.dir.Ready(), content, 0o600); err != nil {
		return err
	}
	c.report.say("cluster", ready, set.Server())
	return nil
}

// stop stops the components in reverse order: controllers first, then the API server, then its
// database.
func (c *cluster) stop() {
	if err := removeReady(c.dir); err != nil {
		c.report.say("cluster", failed, err.Error())
	}
	servers := min(len(c.running), 2)
	c.stopTogether(c.running[servers:])
	if err := node.Clean(c.dir); err != nil {
		c.report.say("node", failed, err.Error())
	}
	for index := servers - 1; index >= 0; index-- {
		c.stopTogether(c.running[index : index+1])
	}
	c.report.say("cluster", stopped, "")
}

func (c *cluster) stopTogether(group []running) {
	done := make(chan string)
	for _, item := range group {
		go func() {
			item.child.Stop(item.grace)
			done <- item.name
		}()
	}
	for range group {
		c.report.say(<-done, stopped, "")
	}
}

func removeReady(dir place.Dir) error {
	err := os.Remove(dir.Ready())
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
