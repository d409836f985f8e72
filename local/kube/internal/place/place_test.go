package place

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestMain lets this program act as a second process that holds the lock of a folder until it is killed
// or its input ends.
func TestMain(m *testing.M) {
	// Ports of other programs stay in use: most tests need not wait for them.
	patience = 10 * time.Millisecond
	if len(os.Args) == 3 && os.Args[1] == "hold" {
		lock, err := Dir(os.Args[2]).Acquire()
		if err != nil {
			os.Exit(1)
		}
		os.Stdout.WriteString("held\n")
		_, _ = io.Copy(io.Discard, os.Stdin)
		runtime.KeepAlive(lock)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func newDir(t *testing.T) Dir {
	t.Helper()
	dir, err := Make(filepath.Join(t.TempDir(), "cluster"))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestFoldersAreClosedToOtherUsers(t *testing.T) {
	dir := newDir(t)
	for _, folder := range []string{string(dir), dir.PKI(""), filepath.Dir(dir.Log("any")), dir.Etcd()} {
		info, err := os.Stat(folder)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o700 {
			t.Errorf("%s has the mode %v", folder, info.Mode())
		}
	}
}

func TestRelativeFolderBecomesAbsolute(t *testing.T) {
	root := t.TempDir()
	t.Chdir(root)
	dir, err := Make("cluster")
	if err != nil {
		t.Fatal(err)
	}
	// Components run in the cluster's folder, so a relative path would lead them elsewhere.
	if !filepath.IsAbs(string(dir)) || !filepath.IsAbs(dir.Kubeconfig()) {
		t.Errorf("%s is not absolute", dir)
	}
}

func TestLockIsHeldOnce(t *testing.T) {
	dir := newDir(t)
	lock, err := dir.Acquire()
	if err != nil {
		t.Fatal(err)
	}
	holder, err := os.ReadFile(dir.Lock())
	if err != nil || string(holder) != strconv.Itoa(os.Getpid()) {
		t.Errorf("the lock names %q, not this process (%v)", holder, err)
	}
	if _, err := dir.Acquire(); err == nil || !strings.Contains(err.Error(), string(dir)) {
		t.Errorf("the folder was taken twice, or the refusal does not name it: %v", err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := dir.Acquire(); err != nil {
		t.Errorf("the lock was not released: %v", err)
	}
}

func TestLockOfKilledProcessIsFree(t *testing.T) {
	dir := newDir(t)
	holder := exec.Command(os.Args[0], "hold", string(dir))
	output, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := holder.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	if line, _ := bufio.NewReader(output).ReadString('\n'); line != "held\n" {
		t.Fatalf("the other process did not take the lock: %q", line)
	}
	if _, err := dir.Acquire(); err == nil {
		t.Error("the lock of another process was taken")
	}
	if err := holder.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = holder.Wait()
	if _, err := dir.Acquire(); err != nil {
		t.Errorf("the lock outlived its process: %v", err)
	}
}

func TestWriteFileReplacesContentAndMode(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	// A killed run left its temporary file, readable by all.
	if err := os.WriteFile(name+".new", []byte("left over"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{"first", "second"} {
		if err := WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		found, err := os.ReadFile(name)
		if err != nil || string(found) != content {
			t.Errorf("%q was written, %q was read (%v)", content, found, err)
		}
		info, err := os.Stat(name)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the mode is %v (%v)", info.Mode(), err)
		}
	}
	if _, err := os.Stat(name + ".new"); !os.IsNotExist(err) {
		t.Errorf("the temporary file stayed: %v", err)
	}
}

func TestWriteFileThatFailsKeepsTheOldContent(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	if err := WriteFile(name, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	// A folder in the place of the temporary file cannot be removed while it has an entry.
	if err := os.MkdirAll(filepath.Join(name+".new", "entry"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(name, []byte("new"), 0o600); err == nil {
		t.Error("no error")
	}
	if content, _ := os.ReadFile(name); string(content) != "old" {
		t.Errorf("the file holds %q", content)
	}
}
