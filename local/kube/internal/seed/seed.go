// Package seed puts into a fresh cluster what every workload expects: nodes to run on and a storage
// class whose claims bind. Running it again changes nothing.
package seed

import (
	"context"
	"fmt"

	core "k8s.io/api/core/v1"
	storage "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// ClassLabel marks the nodes on which no container really runs; everything shown about their pods
// must be called simulated.
const (
	ClassLabel     = "trueup.dev/node-class"
	ClassSimulated = "simulated"
)

const (
	storageClass = "standard"
	provisioner  = "kubernetes.io/host-path"
)

// The one simulated node with GPUs: its name, what it has, and how a cluster with a device plugin
// spells the resource.
const (
	gpuNode     = "simulated-gpu-1"
	gpuResource = core.ResourceName("nvidia.com/gpu")
	gpuCount    = "8"
)

// Apply creates what is missing. Nodes that exist are left as they are, also when fewer are asked for:
// pods may run on them.
func Apply(ctx context.Context, client kubernetes.Interface, nodes int) error {
	if err := createStorageClass(ctx, client); err != nil {
		return fmt.Errorf("cannot create the storage class %s: %w", storageClass, err)
	}
	for number := 1; number <= nodes; number++ {
		if err := createNode(ctx, client, simulatedNode(fmt.Sprintf("simulated-%d", number))); err != nil {
			return err
		}
	}
	node := simulatedNode(gpuNode)
	node.Status.Capacity[gpuResource] = resource.MustParse(gpuCount)
	node.Status.Allocatable = node.Status.Capacity
	return createNode(ctx, client, node)
}

func createNode(ctx context.Context, client kubernetes.Interface, node *core.Node) error {
	_, err := client.CoreV1().Nodes().Create(ctx, node, meta.CreateOptions{})
	if err != nil && !errors.IsAlreadyExists(err) {
		return fmt.Errorf("cannot create the node %s: %w", node.Name, err)
	}
	return nil
}

// ForgetLeases removes the leases that an earlier simulator held on its nodes. A new one has another
// identity and would leave the nodes alone until they run out, which takes 40 seconds.
func ForgetLeases(ctx context.Context, client kubernetes.Interface) error {
	selector := meta.ListOptions{LabelSelector: ClassLabel + "=" + ClassSimulated}
	nodes, err := client.CoreV1().Nodes().List(ctx, selector)
	if err != nil {
		return fmt.Errorf("cannot list the simulated nodes: %w", err)
	}
	leases := client.CoordinationV1().Leases(core.NamespaceNodeLease)
	for _, node := range nodes.Items {
		err := leases.Delete(ctx, node.Name, meta.DeleteOptions{})
		if err != nil && !errors.IsNotFound(err) {
			return fmt.Errorf("cannot remove the lease of the node %s: %w", node.Name, err)
		}
	}
	return nil
}

func createStorageClass(ctx context.Context, client kubernetes.Interface) error {
	reclaim := core.PersistentVolumeReclaimDelete
	binding := storage.VolumeBindingImmediate
	class := &storage.StorageClass{
		ObjectMeta: meta.ObjectMeta{
			Name:        storageClass,
			Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"},
		},
		Provisioner:       provisioner,
		ReclaimPolicy:     &reclaim,
		VolumeBindingMode: &binding,
	}
	_, err := client.StorageV1().StorageClasses().Create(ctx, class, meta.CreateOptions{})
	if errors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func simulatedNode(name string) *core.Node {
	capacity := core.ResourceList{
		core.ResourceCPU:    resource.MustParse("32"),
		core.ResourceMemory: resource.MustParse("128Gi"),
		core.ResourcePods:   resource.MustParse("110"),
	}
	return &core.Node{
		ObjectMeta: meta.ObjectMeta{
			Name: name,
			Labels: map[string]string{
				ClassLabel:           ClassSimulated,
				core.LabelHostname:   name,
				core.LabelOSStable:   "linux",
				core.LabelArchStable: "amd64",
			},
			Annotations: map[string]string{"type": "kwok"},
		},
		Status: core.NodeStatus{Capacity: capacity, Allocatable: capacity},
	}
}
