// Package stages embeds the behaviour of simulated nodes and pods.
package stages

import (
	"bytes"
	"embed"
	"io/fs"
)

//go:embed *.yaml
var files embed.FS

// All is every stage in one stream of documents, which is what KWOK reads.
func All() ([]byte, error) {
	var all bytes.Buffer
	names, err := fs.Glob(files, "*.yaml")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		content, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		all.WriteString("---\n")
		all.Write(content)
	}
	return all.Bytes(), nil
}
