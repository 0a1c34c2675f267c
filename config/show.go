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
	// Live values take effect by a reload, the others by a restart.
	Live bool
}

// Key documents one key.
type Key struct {
	Name    string
	Doc     []string // lines
	Default string   // TOML form
	Env     string   // the variable that overrides it
	// Live keys take effect by a reload, the others by a restart.
	Live bool
}

// Keys documents every key, in the order of Show.
func Keys() []Key {
	def := Default()
	var out []Key
	for _, k := range keys() {
		out = append(out, Key{Name: k.name, Doc: k.doc, Default: k.show(&def), Env: Env(k.name), Live: k.live})
	}
	return out
}

// Change is one key whose value is another than before.
type Change struct {
	Key      string
	Old, New string // TOML form; secrets redacted
	// Live changes take effect by a reload, the others by a restart.
	Live bool
}

// Diff lists what differs between two configurations, in the order of Show.
func Diff(was, is Config) []Change {
	var out []Change
	before := was.Show()
	for i, e := range is.Show() {
		if before[i].Value != e.Value {
			out = append(out, Change{Key: e.Key, Old: before[i].Value, New: e.Value, Live: e.Live})
		}
	}
	return out
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
		out[i] = Entry{Key: k.name, Value: k.show(&c), Origin: origin, Live: k.live}
	}
	return out
}

// WriteExample writes the example file: every key with its default.
func WriteExample(w io.Writer) error {
	var b strings.Builder
	b.WriteString("# skein's configuration: every key with its default.\n")
	b.WriteString("# The environment overrides the file: SKEIN_MESH_LISTEN for mesh.listen. Keys\n")
	b.WriteString("# marked (reload) also take effect by `systemctl reload skein`.\n")
	def := Default()
	section := ""
	for _, k := range keys() {
		at, name := "", k.name
		if i := strings.LastIndexByte(k.name, '.'); i >= 0 {
			at, name = k.name[:i], k.name[i+1:]
		}
		if k.name == "mesh.peers" || k.name == "exec.programs" || k.name == "onion.operators" { // a table of its own
			fmt.Fprintf(&b, "\n%s[%s]\n", comment(k.text()), k.name)
			section = k.name
			continue
		}
		if at != section {
			fmt.Fprintf(&b, "\n[%s]\n", at)
			section = at
		} else {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s%s = %s\n", comment(k.text()), name, k.show(&def))
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

// text is the documentation of a key, with its mark.
func (k key) text() []string {
	if !k.live {
		return k.doc
	}
	return append([]string{"(reload) " + k.doc[0]}, k.doc[1:]...)
}

// WriteReference writes the documentation of all keys.
func WriteReference(w io.Writer) error {
	var b strings.Builder
	b.WriteString("# Configuration\n\n" +
		"Made from the table of keys in `config/keys.go`; `skein config init` prints the same as a file to edit. The file is\n" +
		"`" + DefaultPath + "` unless `--config` or `SKEIN_CONFIG` names another. Flags beat the environment, the\n" +
		"environment beats the file. Unknown keys, wrong types and values out of range are errors, all reported at once.\n\n" +
		"*reload*: `systemctl reload skein` (SIGHUP) applies it; *restart*: only a new start does. `skein config diff` shows what\n" +
		"either would change.\n")
	section := "-"
	for _, k := range Keys() {
		at := ""
		if i := strings.IndexByte(k.Name, '.'); i >= 0 {
			at = k.Name[:i]
		}
		if at != section {
			section = at
			if at == "" {
				at = "top level"
			}
			fmt.Fprintf(&b, "\n## %s\n\n| Key | Default | Environment | Applied by | |\n|---|---|---|---|---|\n", at)
		}
		by := "restart"
		if k.Live {
			by = "reload"
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | `%s` | %s | %s |\n", k.Name, k.Default, k.Env, by, strings.Join(k.Doc, " "))
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write reference of the configuration: %w", err)
	}
	return nil
}
