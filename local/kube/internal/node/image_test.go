package node

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

type entry struct {
	mode    int64
	content []byte
}

func untar(t *testing.T, content []byte) map[string]entry {
	t.Helper()
	if !bytes.HasSuffix(content, make([]byte, 1024)) {
		t.Error("the archive has no end: some readers call it damaged")
	}
	found := map[string]entry{}
	archive := tar.NewReader(bytes.NewReader(content))
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, twice := found[header.Name]; twice {
			t.Errorf("%s is there twice", header.Name)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		found[header.Name] = entry{header.Mode, content}
	}
}

func parse(t *testing.T, content []byte, value any) {
	t.Helper()
	if err := json.Unmarshal(content, value); err != nil {
		t.Fatalf("%v in %s", err, content)
	}
}

// blob is the content of a descriptor, whose digest and size must match.
func blob(t *testing.T, files map[string]entry, wanted descriptor, mediaType string) []byte {
	t.Helper()
	hash, isSHA := strings.CutPrefix(wanted.Digest, "sha256:")
	content := files["blobs/sha256/"+hash].content
	sum := sha256.Sum256(content)
	if !isSHA || hex.EncodeToString(sum[:]) != hash || len(content) != wanted.Size || wanted.MediaType != mediaType {
		t.Fatalf("%+v is not what is stored under its digest: %d bytes", wanted, len(content))
	}
	return content
}

func writeProgram(t *testing.T, content string) (archive []byte) {
	t.Helper()
	folder := t.TempDir()
	program, images := filepath.Join(folder, "program"), filepath.Join(folder, "images.tar")
	if err := os.WriteFile(program, []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := writeImages(images, program); err != nil {
		t.Fatal(err)
	}
	archive, err := os.ReadFile(images)
	if err != nil {
		t.Fatal(err)
	}
	return archive
}

func TestArchiveHoldsBothImagesAroundOneProgram(t *testing.T) {
	const program = "a static program"
	files := untar(t, writeProgram(t, program))
	if layout := string(files["oci-layout"].content); layout != `{"imageLayoutVersion":"1.0.0"}` {
		t.Errorf("the layout is %s", layout)
	}
	var index struct {
		SchemaVersion int          `json:"schemaVersion"`
		Manifests     []descriptor `json:"manifests"`
	}
	parse(t, files["index.json"].content, &index)
	if index.SchemaVersion != 2 || len(index.Manifests) != 2 {
		t.Fatalf("%+v", index)
	}
	for number, want := range []struct {
		name       string
		entrypoint []string
	}{
		{sampleImage, []string{"/sample"}},
		{pauseImage, []string{"/sample", "pause"}},
	} {
		item := index.Manifests[number]
		if name := item.Annotations["io.containerd.image.name"]; name != want.name {
			t.Errorf("image %d is %q", number, name)
		}
		var manifest struct {
			SchemaVersion int          `json:"schemaVersion"`
			MediaType     string       `json:"mediaType"`
			Config        descriptor   `json:"config"`
			Layers        []descriptor `json:"layers"`
		}
		parse(t, blob(t, files, item, manifestType), &manifest)
		if manifest.SchemaVersion != 2 || manifest.MediaType != manifestType || len(manifest.Layers) != 1 {
			t.Fatalf("%+v", manifest)
		}
		var config struct {
			Architecture string `json:"architecture"`
			OS           string `json:"os"`
			Config       struct {
				Entrypoint []string
				User       string
			} `json:"config"`
			RootFS struct {
				Type    string   `json:"type"`
				DiffIDs []string `json:"diff_ids"`
			} `json:"rootfs"`
		}
		parse(t, blob(t, files, manifest.Config, configType), &config)
		if config.OS != "linux" || config.Architecture != runtime.GOARCH || config.Config.User != "65532:65532" ||
			!slices.Equal(config.Config.Entrypoint, want.entrypoint) {
			t.Errorf("%+v", config)
		}
		// The layer is not compressed, so its digest is also that of its content.
		if config.RootFS.Type != "layers" || !slices.Equal(config.RootFS.DiffIDs, []string{manifest.Layers[0].Digest}) {
			t.Errorf("%+v", config.RootFS)
		}
		layer := untar(t, blob(t, files, manifest.Layers[0], layerType))
		if len(layer) != 1 || string(layer["sample"].content) != program || layer["sample"].mode != 0o755 {
			t.Errorf("%+v", layer)
		}
	}
	// Two files of the layout, one layer, two configurations, two manifests.
	if len(files) != 7 {
		t.Errorf("there are %d files", len(files))
	}
}

func TestSameProgramGivesTheSameArchive(t *testing.T) {
	first, second, other := writeProgram(t, "a"), writeProgram(t, "a"), writeProgram(t, "b")
	if !bytes.Equal(first, second) || bytes.Equal(first, other) {
		t.Error("images are not told apart by their program alone")
	}
}

func TestMissingProgramWritesNoArchive(t *testing.T) {
	images := filepath.Join(t.TempDir(), "images.tar")
	if err := writeImages(images, "/no/such/program"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(images); err == nil {
		t.Error("an archive was written")
	}
}
