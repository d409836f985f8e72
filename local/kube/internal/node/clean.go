package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// cgroupMount is where cgroups are mounted; tests use another folder.
var cgroupMount = "/sys/fs/cgroup"

// cgroupRoots are the folders of one cgroup: one for each controller with cgroup v1, a single one with
// cgroup v2.
func cgroupRoots(name string) ([]string, error) {
	if _, err := os.Stat(filepath.Join(cgroupMount, "cgroup.controllers")); err == nil {
		return []string{filepath.Join(cgroupMount, name)}, nil
	}
	controllers, err := os.ReadDir(cgroupMount)
	if err != nil {
		return nil, fmt.Errorf("this machine has no cgroups: %w", err)
	}
	var roots []string
	for _, controller := range controllers {
		info, err := os.Stat(filepath.Join(cgroupMount, controller.Name(), "cgroup.procs"))
		if err == nil && !info.IsDir() {
			roots = append(roots, filepath.Join(cgroupMount, controller.Name(), name))
		}
	}
	return roots, nil
}

// makeCgroups creates a separate cgroup for the pods: in a shared one, two kubelets on one machine would
// kill each other's pods.
func makeCgroups(name string) error {
	roots, err := cgroupRoots(name)
	if err != nil {
		return err
	}
	for _, root := range roots {
		if err := os.MkdirAll(root, 0o755); err != nil {
			return err
		}
		if filepath.Base(filepath.Dir(root)) == "cpuset" {
			if err := inheritCpuset(root); err != nil {
				return err
			}
		}
	}
	return nil
}

// inheritCpuset copies the parent's settings: a new cpuset of cgroup v1 has no CPUs and no memory.
func inheritCpuset(root string) error {
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		content, err := os.ReadFile(filepath.Join(filepath.Dir(root), file))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(root, file), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func removeCgroups(name string) error {
	roots, err := cgroupRoots(name)
	if err != nil {
		return nil
	}
	var failed error
	for _, root := range roots {
		var folders []string
		_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				folders = append(folders, path)
			}
			return nil
		})
		// The innermost first: a cgroup with children cannot be removed.
		slices.Reverse(folders)
		for _, folder := range folders {
			if err := syscall.Rmdir(folder); err != nil && !errors.Is(err, syscall.ENOENT) {
				failed = fmt.Errorf("cannot remove the cgroup %s: %w", folder, err)
			}
		}
	}
	return failed
}

// endProcesses kills the processes in the node's cgroup and the shims of its containerd, until none is
// left.
func endProcesses(cgroup, runFolder string) error {
	deadline := time.Now().Add(5 * time.Second)
	for {
		left := append(processesIn(cgroup), shimsOf(runFolder)...)
		if len(left) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("processes of the real node still run: %v", left)
		}
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func processesIn(cgroup string) []int {
	roots, err := cgroupRoots(cgroup)
	if err != nil {
		return nil
	}
	var pids []int
	for _, root := range roots {
		_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.Name() == "cgroup.procs" {
				content, _ := os.ReadFile(path)
				for _, line := range strings.Fields(string(content)) {
					if pid, err := strconv.Atoi(line); err == nil && pid > 0 {
						pids = append(pids, pid)
					}
				}
			}
			return nil
		})
	}
	slices.Sort(pids)
	return slices.Compact(pids)
}

// shimsOf finds containerd's shims, which outlive it, by the socket that each carries in its arguments.
func shimsOf(runFolder string) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		content, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline"))
		if err != nil {
			continue
		}
		if isShim(string(content), runFolder) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func isShim(commandLine, runFolder string) bool {
	args := strings.Split(commandLine, "\x00")
	return strings.Contains(args[0], "containerd-shim") && slices.ContainsFunc(args, func(arg string) bool {
		return strings.HasPrefix(arg, runFolder+"/")
	})
}

// unmountBelow unmounts containers and volumes, the innermost first.
func unmountBelow(folders ...string) error {
	content, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	var failed error
	for _, mount := range mountsBelow(string(content), folders) {
		if err := syscall.Unmount(mount, syscall.MNT_DETACH); err != nil && !errors.Is(err, syscall.EINVAL) {
			failed = fmt.Errorf("cannot unmount %s: %w", mount, err)
		}
	}
	return failed
}

// mountsBelow finds the mounts below these folders in mountinfo, the last one first.
func mountsBelow(mountinfo string, folders []string) []string {
	var mounts []string
	for _, line := range strings.Split(mountinfo, "\n") {
		fields := strings.Fields(line)
		if len(fields) <= 4 {
			continue
		}
		mount := escapedInMountinfo.Replace(fields[4])
		if slices.ContainsFunc(folders, func(folder string) bool { return strings.HasPrefix(mount, folder+"/") }) {
			mounts = append(mounts, mount)
		}
	}
	slices.Reverse(mounts)
	return mounts
}

// escapedInMountinfo undoes the kernel's escaping of separators.
var escapedInMountinfo = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\043`, "#", `\134`, `\`)
