package node

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func hostPathVolume(name, path, by string) *core.PersistentVolume {
	return &core.PersistentVolume{
		ObjectMeta: meta.ObjectMeta{Name: name, Annotations: map[string]string{"kubernetes.io/createdby": by}},
		Spec: core.PersistentVolumeSpec{PersistentVolumeSource: core.PersistentVolumeSource{
			HostPath: &core.HostPathVolumeSource{Path: path},
		}},
	}
}

func TestOnlyProvisionedVolumesAreOpened(t *testing.T) {
	folder := func(name string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.Mkdir(path, 0o750); err != nil {
			t.Fatal(err)
		}
		return path
	}
	before, later, foreign := folder("before"), folder("later"), folder("foreign")
	const provisioner = "hostpath-dynamic-provisioner"
	client := fake.NewClientset(hostPathVolume("before", before, provisioner), hostPathVolume("foreign", foreign, ""))
	if err := OpenVolumes(t.Context(), client, func(text string) { t.Error(text) }); err != nil {
		t.Fatal(err)
	}
	mode := func(path string) os.FileMode {
		found, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return found.Mode().Perm()
	}
	await := func(path string) {
		for deadline := time.Now().Add(20 * time.Second); mode(path) != volumeMode; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s has mode %o", path, mode(path))
			}
		}
	}
	await(before)
	volume := hostPathVolume("later", later, provisioner)
	if _, err := client.CoreV1().PersistentVolumes().Create(t.Context(), volume, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	await(later)
	if mode(foreign) != 0o750 {
		t.Errorf("a volume of another provisioner has mode %o", mode(foreign))
	}
}

// M8: a folder that somebody else made, or a link, is not used; ours becomes private.
func TestVolumeFolderIsOursOrRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hostpath_pv")
	if err := os.Mkdir(path, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o777); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := takeFolder(path); err != nil {
			t.Fatal(err)
		}
		found, err := os.Stat(path)
		if err != nil || found.Mode().Perm() != 0o700 {
			t.Fatalf("%v, %v", found, err)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(t.TempDir(), path); err != nil {
		t.Fatal(err)
	}
	if takeFolder(path) == nil {
		t.Error("a link was accepted")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	foreign := "/usr"
	if os.Geteuid() == 0 {
		// Root can give a folder away; anyone else finds one of root.
		foreign = filepath.Join(t.TempDir(), "foreign")
		if err := os.Mkdir(foreign, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(foreign, 1, -1); err != nil {
			t.Fatal(err)
		}
	}
	if takeFolder(foreign) == nil {
		t.Error("a folder of another user was accepted")
	}
}

// M8: the mode of what a link points to is not changed.
func TestVolumeThatIsALinkIsNotOpened(t *testing.T) {
	target := filepath.Join(t.TempDir(), "target")
	if err := os.Mkdir(target, 0o700); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	if openVolume(hostPathVolume("planted", link, "hostpath-dynamic-provisioner")) == nil {
		t.Error("a link was opened")
	}
	found, err := os.Stat(target)
	if err != nil || found.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", found, err)
	}
}
