package node

import (
	"context"
	"fmt"
	"os"
	"syscall"

	core "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// volumeFolder is where the host-path provisioner creates volumes. Upstream has it fixed.
const volumeFolder = "/tmp/hostpath_pv"

// TakeVolumeFolder makes the folder of the host-path provisioner ours, before the provisioner creates it.
// Any user may create files in /tmp: one who made that folder first could lead volumes, which root creates
// and opens, anywhere. A folder of another user is refused.
func TakeVolumeFolder() error { return takeFolder(volumeFolder) }

func takeFolder(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil && !os.IsExist(err) {
		return err
	}
	// Not what a link points to. Nobody else can replace what is ours in a folder like /tmp.
	found, err := os.Lstat(path)
	if err != nil {
		return err
	}
	owner, ok := found.Sys().(*syscall.Stat_t)
	if !ok || !found.IsDir() || int(owner.Uid) != os.Geteuid() {
		return fmt.Errorf("%s is not a folder of this user, so volumes could be led elsewhere: remove it and start again", path)
	}
	return os.Chmod(path, 0o700)
}

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
	// Never through a link: a volume names a path, and whoever may create volumes chooses it.
	const folder = syscall.O_RDONLY | syscall.O_DIRECTORY | syscall.O_NOFOLLOW
	opened, err := os.OpenFile(volume.Spec.HostPath.Path, folder, 0)
	if err != nil {
		if os.IsNotExist(err) {
			return nil
		}
		return err
	}
	defer opened.Close()
	return opened.Chmod(volumeMode)
}
