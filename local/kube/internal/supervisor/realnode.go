package supervisor

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/kubernetes"

	"trueup.dev/local/kube/internal/node"
	"trueup.dev/local/kube/internal/parts"
	"trueup.dev/local/kube/internal/seed"
)

// nodeLimit is where waiting for the real node ends and the cluster goes on without it.
const nodeLimit = 40 * time.Second

// startNode adds the real node. A cluster without it is still of use, so a failure is a reason and
// not the end: what was begun is undone.
func (c *cluster) startNode(ctx context.Context, set parts.Set, client *kubernetes.Clientset) error {
	ctx, cancel := context.WithTimeout(ctx, nodeLimit)
	defer cancel()
	before := len(c.running)
	err := c.launchNode(ctx, set, client)
	if err == nil {
		c.report.say("node", ready, node.Name)
		return nil
	}
	c.report.say("node", failed, err.Error())
	c.stopTogether(c.running[before:])
	c.running = c.running[:before]
	if cleaning := node.Clean(c.dir); cleaning != nil {
		c.report.say("node", failed, cleaning.Error())
	}
	return err
}

func (c *cluster) launchNode(ctx context.Context, set parts.Set, client *kubernetes.Clientset) error {
	c.report.say("node", starting, "")
	real, err := node.New(c.dir, set)
	if err != nil {
		return err
	}
	if err := real.Prepare(); err != nil {
		return fmt.Errorf("the real node cannot be prepared: %w", err)
	}
	c.launch(real.Containerd(), nodeGrace)
	if err := poll(ctx, real.Answers); err != nil {
		return fmt.Errorf("containerd did not answer, see %s: %w", c.dir.Log("containerd"), err)
	}
	if err := poll(ctx, real.ImportImages); err != nil {
		return fmt.Errorf("the sample images cannot be imported: %w", err)
	}
	c.launch(real.Kubelet(), nodeGrace)
	isReady := func(ctx context.Context) error { return seed.NodeIsReady(ctx, client, node.Name) }
	if err := poll(ctx, isReady); err != nil {
		return fmt.Errorf("the kubelet did not become ready, see %s: %w", c.dir.Log("kubelet"), err)
	}
	return nil
}
