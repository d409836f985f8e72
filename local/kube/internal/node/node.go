// Package node is the one real node of a local cluster: a kubelet over containerd and runc, whose
// pods are processes of this machine.
//
// Nothing is shared with another cluster or with an existing containerd of the machine: socket,
// storage, bridge, subnet and cgroup belong to this cluster and are removed with it.
package node

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"trueup.dev/local/kube/internal/parts"
	"trueup.dev/local/kube/internal/pki"
	"trueup.dev/local/kube/internal/place"
	"trueup.dev/local/kube/internal/seed"
)

// Name is the name of the node.
const Name = "real-1"

// port is always free, because the address belongs to this cluster.
const port = 10250

// Node is the real node of one cluster.
type Node struct {
	dir place.Dir
	set parts.Set
	// tag distinguishes its files and devices from those of other clusters on this machine.
	tag     string
	network network
	kubelet string
	sample  string
}

// New finds the programs and chooses the names; it creates nothing yet.
func New(dir place.Dir, set parts.Set) (*Node, error) {
	beside := func(name string) string { return filepath.Join(filepath.Dir(set.Self), name) }
	node := &Node{dir: dir, set: set, tag: tag(dir), kubelet: beside("trueup-kubelet"), sample: beside("trueup-sample")}
	for _, program := range []string{node.kubelet, node.sample} {
		if _, err := os.Stat(program); err != nil {
			return nil, fmt.Errorf("a real node needs %s; build the local Kubernetes again: %w", filepath.Base(program), err)
		}
	}
	network, err := chooseNetwork(dir, node.tag)
	if err != nil {
		return nil, err
	}
	node.network = network
	return node, nil
}

// tag is short, because the name of a network device has at most 15 characters.
func tag(dir place.Dir) string {
	digest := sha256.Sum256([]byte(dir))
	return hex.EncodeToString(digest[:4])
}

// Prepare creates everything that containerd and the kubelet need to start.
func (n *Node) Prepare() error {
	for _, folder := range []string{n.dir.Node("cni"), n.dir.Node("kubelet"), n.runFolder()} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return err
		}
	}
	if err := n.network.make(); err != nil {
		return err
	}
	if err := makeCgroups(n.cgroup()); err != nil {
		return err
	}
	if err := pki.EnsureKubelet(n.dir, Name, n.network.gateway()); err != nil {
		return err
	}
	if err := pki.WriteKubeletKubeconfig(n.dir, n.set.Server()); err != nil {
		return err
	}
	if err := writeImages(n.images(), n.sample); err != nil {
		return fmt.Errorf("cannot write the images of the samples: %w", err)
	}
	return n.writeConfigs()
}

// Containerd runs the containers.
func (n *Node) Containerd() parts.Part {
	return parts.Part{Name: "containerd", Program: "containerd", Args: []string{"--config=" + n.containerdConfig()}}
}

// Kubelet starts and watches the pods of this node.
func (n *Node) Kubelet() parts.Part {
	return parts.Part{Name: "kubelet", Program: n.kubelet, Args: []string{
		"--config=" + n.kubeletConfig(),
		"--kubeconfig=" + n.dir.Node("kubeconfig"),
		"--root-dir=" + n.dir.Node("kubelet"),
		"--hostname-override=" + Name,
		// Not loopback: the API server dials it for logs.
		"--node-ip=" + n.network.gateway().String(),
		"--node-labels=" + seed.ClassLabel + "=" + seed.ClassReal,
	}}
}

// ImportImages imports the samples into containerd, so that pods need no registry. It works once
// containerd is ready.
func (n *Node) ImportImages(ctx context.Context) error {
	command := exec.CommandContext(ctx, "ctr", "--address="+n.socket(), "--namespace=k8s.io", "images", "import", n.images())
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(output)))
	}
	return nil
}

// Answers returns nil if containerd listens.
func (n *Node) Answers(ctx context.Context) error {
	connection, err := (&net.Dialer{}).DialContext(ctx, "unix", n.socket())
	if err != nil {
		return err
	}
	return connection.Close()
}

// runFolder holds the sockets. Its path is short wherever the cluster is: a socket's path has at most
// 107 characters.
func (n *Node) runFolder() string { return runFolder(n.tag) }

func runFolder(tag string) string { return filepath.Join("/run/trueup", tag) }

func (n *Node) socket() string           { return filepath.Join(n.runFolder(), "containerd.sock") }
func (n *Node) images() string           { return n.dir.Node("images.tar") }
func (n *Node) containerdConfig() string { return n.dir.Node("containerd.toml") }
func (n *Node) kubeletConfig() string    { return n.dir.Node("kubelet.yaml") }
func (n *Node) cgroup() string           { return cgroup(n.tag) }

func cgroup(tag string) string { return "trueup-" + tag }

// Clean stops every container of a cluster's node and releases its devices, mounts and cgroups. It
// needs no containerd, which may have been killed. A cluster without a node has nothing to clean.
func Clean(dir place.Dir) error {
	if _, err := os.Stat(dir.Node()); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	tag := tag(dir)
	return errors.Join(
		endProcesses(cgroup(tag), runFolder(tag)),
		unmountBelow(dir.Node(), runFolder(tag)),
		removeCgroups(cgroup(tag)),
		removeBridge(bridge(tag)),
		os.RemoveAll(runFolder(tag)),
	)
}
