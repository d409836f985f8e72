// Package seed creates what every workload needs in a new cluster: nodes to run on and a storage class
// whose claims bind. Running it again changes nothing.
package seed

import (
	"context"
	"fmt"

	core "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	storage "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"trueup.dev/local/kube/internal/pki"
)

// ClassLabel marks nodes on which no container really runs; everything shown about their pods must be
// called simulated. The same key taints a real node: only pods that tolerate it are scheduled there.
const (
	ClassLabel     = "trueup.dev/node-class"
	ClassSimulated = "simulated"
	ClassReal      = "real"
	// LostLabel, with any value, makes a simulated node stop renewing its lease and reporting its pods.
	LostLabel = "simulate.trueup.dev/lost"
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

// Apply creates what is missing. Existing nodes are kept, also if fewer are requested: pods may run on
// them.
func Apply(ctx context.Context, client kubernetes.Interface, nodes int) error {
	if err := createStorageClass(ctx, client); err != nil {
		return fmt.Errorf("cannot create the storage class %s: %w", storageClass, err)
	}
	if err := bindKubeletClient(ctx, client); err != nil {
		return fmt.Errorf("cannot give the API server access to kubelets: %w", err)
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
// identity and would wait until they expire, which takes 40 seconds.
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

// ForgetNode removes a node that no longer exists, and so the pods that were on it.
func ForgetNode(ctx context.Context, client kubernetes.Interface, name string) error {
	err := client.CoreV1().Nodes().Delete(ctx, name, meta.DeleteOptions{})
	if err != nil && !errors.IsNotFound(err) {
		return fmt.Errorf("cannot remove the node %s: %w", name, err)
	}
	return nil
}

// NodeIsReady returns nil if a node reports that it is ready.
func NodeIsReady(ctx context.Context, client kubernetes.Interface, name string) error {
	node, err := client.CoreV1().Nodes().Get(ctx, name, meta.GetOptions{})
	if err != nil {
		return err
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == core.NodeReady && condition.Status == core.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("the node %s is not ready", name)
}

// bindKubeletClient lets the API server read the logs of a real node's pods.
func bindKubeletClient(ctx context.Context, client kubernetes.Interface) error {
	binding := &rbac.ClusterRoleBinding{
		ObjectMeta: meta.ObjectMeta{Name: "trueup-kubelet-client"},
		RoleRef:    rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: "system:kubelet-api-admin"},
		Subjects:   []rbac.Subject{{APIGroup: rbac.GroupName, Kind: rbac.UserKind, Name: pki.KubeletClientUser}},
	}
	_, err := client.RbacV1().ClusterRoleBindings().Create(ctx, binding, meta.CreateOptions{})
	if errors.IsAlreadyExists(err) {
		return nil
	}
	return err
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
		// Only for plans that name an amount: other pods request none.
		core.ResourceEphemeralStorage: resource.MustParse("1000Gi"),
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
