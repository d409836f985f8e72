package node

import (
	"context"
	"fmt"
	"os"

	core "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// volumeMode lets the user of any pod write to its volume. The upstream host-path provisioner creates
// folders that only root can enter, and Kubernetes does not apply a pod's fsGroup to such volumes. The
// folder above them stays closed, so only pods that mount a volume reach it.
const volumeMode = 0o777

// OpenVolumes lets pods write to the volumes of the host-path provisioner, the present ones and new
// ones, until the context ends. Failures are reported through say.
func OpenVolumes(ctx context.Context, client kubernetes.Interface, say func(string)) error {
	factory := informers.NewSharedInformerFactory(client, 0)
	open := func(object any) {
		volume, ok := object.(*core.PersistentVolume)
		if !ok {
			return
		}
		if err := openVolume(volume); err != nil {
			say(fmt.Sprintf("pods cannot write to volume %s: %v", volume.Name, err))
		}
	}
	handler := cache.ResourceEventHandlerFuncs{AddFunc: open}
	if _, err := factory.Core().V1().PersistentVolumes().Informer().AddEventHandler(handler); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	return nil
}

// openVolume changes the mode of a volume's folder. Other volumes are left alone, and so is a folder
// that is already gone.
func openVolume(volume *core.PersistentVolume) error {
	const made = "kubernetes.io/createdby"
	if volume.Spec.HostPath == nil || volume.Annotations[made] != "hostpath-dynamic-provisioner" {
		return nil
	}
	if err := os.Chmod(volume.Spec.HostPath.Path, volumeMode); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}
