package node

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// limit is only reached by a failing test; a process that a test has to kill lives longer than that.
const (
	limit    = 60 * time.Second
	lifetime = 3 * limit
)

// TestMain lets this program act as a process that a killed node left behind.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "left" {
		time.Sleep(lifetime)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// leave starts a process with these arguments, and returns a channel for its end.
func leave(t *testing.T, args ...string) (pid int, ended chan error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(self)
	command.Args = args
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended = make(chan error, 1)
	go func() { ended <- command.Wait() }()
	t.Cleanup(func() { _ = command.Process.Kill() })
	return command.Process.Pid, ended
}

func isOver(ended chan error) bool {
	select {
	case <-ended:
		return true
	case <-time.After(limit):
		return false
	}
}

// fakeCgroups replaces the kernel's cgroup mount by a folder.
func fakeCgroups(t *testing.T, files map[string]string) string {
	t.Helper()
	mount, saved := t.TempDir(), cgroupMount
	cgroupMount = mount
	t.Cleanup(func() { cgroupMount = saved })
	for name, content := range files {
		path := filepath.Join(mount, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return mount
}

func folders(t *testing.T, root string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && path != root {
			found = append(found, strings.TrimPrefix(path, root+"/"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

var hierarchies = map[string]struct {
	files map[string]string
	roots []string
}{
	"one hierarchy": {
		map[string]string{"cgroup.controllers": "cpu", "cgroup.procs": "", "other/cgroup.procs": ""},
		[]string{"pods"},
	},
	"a hierarchy for each controller": {
		map[string]string{
			"cpu/cgroup.procs": "", "cpuset/cgroup.procs": "", "cpuset/cpuset.cpus": "0-1", "cpuset/cpuset.mems": "0",
			"no-controller/file": "",
		},
		[]string{"cpu/pods", "cpuset/pods"},
	},
}

func TestCgroupsAreMadeAndRemovedInEveryHierarchy(t *testing.T) {
	for name, test := range hierarchies {
		t.Run(name, func(t *testing.T) {
			mount := fakeCgroups(t, test.files)
			before := folders(t, mount)
			if err := makeCgroups("pods"); err != nil {
				t.Fatal(err)
			}
			made := slices.DeleteFunc(folders(t, mount), func(folder string) bool { return slices.Contains(before, folder) })
			if !slices.Equal(made, test.roots) {
				t.Errorf("made: %q", made)
			}
			for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
				path := filepath.Join(mount, "cpuset", "pods", file)
				if content, err := os.ReadFile(path); err == nil {
					if string(content) != test.files["cpuset/"+file] {
						t.Errorf("%s is %q", file, content)
					}
					// In a real cgroup such files do not block the removal.
					_ = os.Remove(path)
				} else if slices.Contains(test.roots, "cpuset/pods") {
					t.Error(err)
				}
			}
			for _, root := range test.roots {
				if err := os.MkdirAll(filepath.Join(mount, root, "pod", "container"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			// The second time there is nothing to remove.
			for range 2 {
				if err := removeCgroups("pods"); err != nil {
					t.Error(err)
				}
			}
			if after := folders(t, mount); !slices.Equal(after, before) {
				t.Errorf("left: %q, before: %q", after, before)
			}
		})
	}
}

func TestCgroupThatCannotBeRemovedIsNamed(t *testing.T) {
	mount := fakeCgroups(t, map[string]string{"cgroup.controllers": "", "pods/busy/file": ""})
	if err := removeCgroups("pods"); err == nil || !strings.Contains(err.Error(), filepath.Join(mount, "pods")) {
		t.Errorf("%v", err)
	}
}

func TestProcessesOfAllCgroupsBelowAreFound(t *testing.T) {
	fakeCgroups(t, map[string]string{
		"cpu/cgroup.procs": "1\n", "memory/cgroup.procs": "1\n",
		"cpu/pods/cgroup.procs":           "",
		"cpu/pods/a/cgroup.procs":         "30\n7\n",
		"cpu/pods/a/b/cgroup.procs":       "8\n",
		"memory/pods/a/cgroup.procs":      "7\n9\n",
		"memory/pods-2/cgroup.procs":      "10\n",
		"memory/pods/a/other":             "11\n",
		"memory/pods/thread/cgroup.procs": "0\nnonsense\n",
	})
	if found := processesIn("pods"); !slices.Equal(found, []int{7, 8, 9, 30}) {
		t.Errorf("%v", found)
	}
}

func TestShimIsRecognisedByTheFolderOfItsCluster(t *testing.T) {
	const folder = "/run/trueup/00112233"
	for line, want := range map[string]bool{
		"/usr/bin/containerd-shim-runc-v2|-namespace|k8s.io|-address|" + folder + "/containerd.sock|": true,
		"containerd-shim-runc-v2|-address|" + folder + "/containerd.sock|":                            true,
		"containerd-shim-runc-v2|-address|" + folder + "4/containerd.sock|":                           false,
		"containerd-shim-runc-v2|-address|/run/containerd/containerd.sock|":                           false,
		"less|" + folder + "/containerd-shim.log|":                                                    false,
		"": false,
	} {
		if got := isShim(strings.ReplaceAll(line, "|", "\x00"), folder); got != want {
			t.Errorf("%q: %t", line, got)
		}
	}
}

func TestProcessesThatWereLeftAreEnded(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "run")
	_, shim := leave(t, "containerd-shim-test", "left", folder+"/containerd.sock")
	_, other := leave(t, "containerd-shim-test", "left", folder+"-2/containerd.sock")
	container, inCgroup := leave(t, "container", "left")
	mount := fakeCgroups(t, map[string]string{"cgroup.controllers": "", "pods/cgroup.procs": fmt.Sprintln(container)})
	// The kernel removes a process from the list when it is gone.
	listed := filepath.Join(mount, "pods", "cgroup.procs")
	go func() {
		<-inCgroup
		_ = os.WriteFile(listed, nil, 0o644)
		close(inCgroup)
	}()
	if err := endProcesses("pods", folder); err != nil {
		t.Fatal(err)
	}
	if !isOver(shim) || !isOver(inCgroup) {
		t.Error("not all processes have ended")
	}
	select {
	case <-other:
		t.Error("a process of another cluster was ended")
	default:
	}
	// Now there is nothing to end.
	if err := endProcesses("pods", folder); err != nil {
		t.Error(err)
	}
}

func TestMountsAreFoundInnermostFirst(t *testing.T) {
	const list = `22 1 8:1 / / rw - ext4 /dev/root rw
30 22 0:26 / /clusters/a/node/kubelet/pods/1/volumes/x rw - tmpfs tmpfs rw
31 30 0:27 / /clusters/a/node/kubelet/pods/1/volumes/x/inner rw shared:1 - tmpfs tmpfs rw
32 22 0:28 / /clusters/a/node-2/x rw - tmpfs tmpfs rw
33 22 0:29 / /run/trueup/1/state/rootfs rw - overlay overlay rw
34 22 0:30 / /clusters/a\040b/node/with\011tab rw - tmpfs tmpfs rw
35 22 0:31 / /clusters/a/node rw - tmpfs tmpfs rw
damaged line
`
	for name, test := range map[string]struct{ folders, want []string }{
		"none":      {nil, nil},
		"node, run": {[]string{"/clusters/a/node", "/run/trueup/1"}, []string{"/run/trueup/1/state/rootfs", "/clusters/a/node/kubelet/pods/1/volumes/x/inner", "/clusters/a/node/kubelet/pods/1/volumes/x"}},
		"escaped":   {[]string{"/clusters/a b/node"}, []string{"/clusters/a b/node/with\ttab"}},
	} {
		if found := mountsBelow(list, test.folders); !slices.Equal(found, test.want) {
			t.Errorf("%s: %q", name, found)
		}
	}
}

func TestClusterWithoutNodeHasNothingToClean(t *testing.T) {
	// If it continued, it would read this folder and fail.
	saved := cgroupMount
	cgroupMount = "/no/such/folder"
	defer func() { cgroupMount = saved }()
	if err := Clean(newDir(t)); err != nil {
		t.Error(err)
	}
}
