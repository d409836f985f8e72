// Package place defines where the files of one local cluster are.
//
// Everything is below one directory, so that removing it removes the cluster and two clusters on one
// machine never share a file.
package place

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// Dir is the root of one cluster.
type Dir string

func (d Dir) path(parts ...string) string {
	return filepath.Join(append([]string{string(d)}, parts...)...)
}

// Kubeconfig is the administrator's kubeconfig: the one file that users need.
func (d Dir) Kubeconfig() string { return d.path("kubeconfig") }

// Ready exists only while the cluster serves.
func (d Dir) Ready() string { return d.path("ready.json") }

// Ports remembers the chosen ports.
func (d Dir) Ports() string { return d.path("ports.json") }

// Lock is held by the one supervisor of this directory.
func (d Dir) Lock() string { return d.path("lock") }

// PKI is a file among the keys and certificates.
func (d Dir) PKI(name string) string { return d.path("pki", name) }

// Etcd is the database's own folder.
func (d Dir) Etcd() string { return d.path("etcd") }

// Stages is the KWOK configuration of simulated nodes and pods.
func (d Dir) Stages() string { return d.path("stages.yaml") }

// Node is a file of the real node, if this cluster has one.
func (d Dir) Node(parts ...string) string { return d.path(append([]string{"node"}, parts...)...) }

// Log is the log file of a component.
func (d Dir) Log(component string) string { return d.path("log", component+".log") }

// Make creates the folders, private because they contain keys.
func Make(root string) (Dir, error) {
	absolute, err := filepath.Abs(root)
	if err != nil {
		return "", err
	}
	dir := Dir(absolute)
	for _, folder := range []string{dir.path(), dir.path("pki"), dir.path("log"), dir.Etcd()} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// Acquire locks the directory for this process until it ends; the kernel releases the lock even after
// a kill, so a stale lock cannot exist. The file names the holder.
func (d Dir) Acquire() (*os.File, error) {
	file, err := os.OpenFile(d.Lock(), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		_ = file.Close()
		return nil, fmt.Errorf("another trueup-kube already runs on %s; stop it or choose another --dir", d)
	}
	if err == nil {
		err = os.WriteFile(d.Lock(), []byte(strconv.Itoa(os.Getpid())), 0o600)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// WriteFile replaces a file in one step, so that a reader sees the old or the new content only.
func WriteFile(name string, content []byte, mode os.FileMode) error {
	temporary := name + ".new"
	// A leftover of a killed run could have another mode.
	if err := os.Remove(temporary); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.WriteFile(temporary, content, mode); err != nil {
		return err
	}
	return os.Rename(temporary, name)
}
