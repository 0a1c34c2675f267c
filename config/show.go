package config

import (
	"fmt"
	"io"
	"strings"
)

// Entry is one key with its effective value.
type Entry struct {
	Key    string
	Value  string // TOML form; secrets redacted
	Origin Origin
}

// Show returns every key in a fixed order.
func (c Config) Show() []Entry {
	list := keys()
	out := make([]Entry, len(list))
	for i, k := range list {
		origin, ok := c.origin[k.name]
		if !ok {
			origin = FromDefault
		}
		out[i] = Entry{Key: k.name, Value: k.show(&c), Origin: origin}
	}
	return out
}

// WriteExample writes the example file: every key with its default.
func WriteExample(w io.Writer) error {
	var b strings.Builder
	b.WriteString("# skein's configuration: every key with its default.\n")
	b.WriteString("# The environment overrides the file: SKEIN_MESH_LISTEN for mesh.listen.\n")
	def := Default()
	section := ""
	for _, k := range keys() {
		at, name := "", k.name
		if i := strings.LastIndexByte(k.name, '.'); i >= 0 {
			at, name = k.name[:i], k.name[i+1:]
		}
		if k.name == "mesh.peers" { // a table of its own
			fmt.Fprintf(&b, "\n%s[mesh.peers]\n", comment(k.doc))
			section = k.name
			continue
		}
		if at != section {
			fmt.Fprintf(&b, "\n[%s]\n", at)
			section = at
		} else {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s%s = %s\n", comment(k.doc), name, k.show(&def))
	}
	_, err := io.WriteString(w, b.String())
	if err != nil {
		return fmt.Errorf("write example configuration: %w", err)
	}
	return nil
}

func comment(lines []string) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString("# " + l + "\n")
	}
	return b.String()
}
