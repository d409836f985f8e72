package node

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"runtime"

	"trueup.dev/local/kube/internal/place"
)

// The images of a real node, which needs no registry: one program under two names.
const (
	sampleImage = "trueup.dev/local/sample:1"
	pauseImage  = "trueup.dev/local/pause:1"
)

// nobody is an unprivileged user, as Pod Security `restricted` requires.
const nobody = "65532:65532"

const (
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	configType   = "application/vnd.oci.image.config.v1+json"
	layerType    = "application/vnd.oci.image.layer.v1.tar"
)

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// layout is an OCI image layout while it is written.
type layout struct {
	buffer  bytes.Buffer
	archive *tar.Writer
	stored  map[string]bool
	failed  error
}

// writeImages writes an archive with both images around one static program.
func writeImages(name, program string) error {
	content, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	l := &layout{stored: map[string]bool{}}
	l.archive = tar.NewWriter(&l.buffer)
	layer := l.blob(layerType, l.layer(content))
	manifests := []descriptor{
		l.image(sampleImage, layer, "/sample"),
		l.image(pauseImage, layer, "/sample", "pause"),
	}
	l.file("oci-layout", 0o644, []byte(`{"imageLayoutVersion":"1.0.0"}`))
	l.file("index.json", 0o644, l.json(map[string]any{"schemaVersion": 2, "manifests": manifests}))
	if l.failed == nil {
		l.failed = l.archive.Close()
	}
	if l.failed != nil {
		return l.failed
	}
	return place.WriteFile(name, l.buffer.Bytes(), 0o600)
}

func (l *layout) image(name string, layer descriptor, entrypoint ...string) descriptor {
	config := l.blob(configType, l.json(map[string]any{
		"architecture": runtime.GOARCH,
		"os":           "linux",
		"config":       map[string]any{"Entrypoint": entrypoint, "User": nobody},
		"rootfs":       map[string]any{"type": "layers", "diff_ids": []string{layer.Digest}},
	}))
	manifest := l.blob(manifestType, l.json(map[string]any{
		"schemaVersion": 2,
		"mediaType":     manifestType,
		"config":        config,
		"layers":        []descriptor{layer},
	}))
	manifest.Annotations = map[string]string{"io.containerd.image.name": name}
	return manifest
}

// layer is a file system with the one program in it.
func (l *layout) layer(program []byte) []byte {
	inner := &layout{}
	inner.archive = tar.NewWriter(&inner.buffer)
	inner.file("sample", 0o755, program)
	if inner.failed == nil {
		inner.failed = inner.archive.Close()
	}
	l.keep(inner.failed)
	return inner.buffer.Bytes()
}

// blob stores content under its digest, once.
func (l *layout) blob(mediaType string, content []byte) descriptor {
	sum := sha256.Sum256(content)
	digest := hex.EncodeToString(sum[:])
	if !l.stored[digest] {
		l.stored[digest] = true
		l.file("blobs/sha256/"+digest, 0o644, content)
	}
	return descriptor{MediaType: mediaType, Digest: "sha256:" + digest, Size: len(content)}
}

func (l *layout) file(name string, mode int64, content []byte) {
	l.keep(l.archive.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(content))}))
	_, err := l.archive.Write(content)
	l.keep(err)
}

func (l *layout) json(value any) []byte {
	content, err := json.Marshal(value)
	l.keep(err)
	return content
}

// keep records the first error, so that the steps above need no error handling.
func (l *layout) keep(err error) {
	if l.failed == nil {
		l.failed = err
	}
}
