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

// nodeLimit is the timeout of the real node; after it, the cluster continues without one.
const nodeLimit = 40 * time.Second

// startNode adds the real node. A cluster without it is still useful, so a failure is reported and
// rolled back, but not fatal.
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
		return fmt.Errorf("cannot prepare the real node: %w", err)
	}
	c.launch(real.Containerd(), nodeGrace)
	if err := poll(ctx, real.Answers); err != nil {
		return fmt.Errorf("containerd did not become ready, see %s: %w", c.dir.Log("containerd"), err)
	}
	if err := poll(ctx, real.ImportImages); err != nil {
		return fmt.Errorf("cannot import the sample images: %w", err)
	}
	c.launch(real.Kubelet(), nodeGrace)
	isReady := func(ctx context.Context) error { return seed.NodeIsReady(ctx, client, node.Name) }
	if err := poll(ctx, isReady); err != nil {
		return fmt.Errorf("the kubelet did not become ready, see %s: %w", c.dir.Log("kubelet"), err)
	}
	return nil
}
