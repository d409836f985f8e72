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
