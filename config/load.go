package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/BurntSushi/toml"

	"github.com/skein-project/skein/internal/spelling"
)

// maxFile bounds the configuration file, in bytes.
const maxFile = 1 << 20

// Options says where the configuration comes from.
type Options struct {
	// Path of the TOML file; empty: no file.
	Path string
	// Optional lets the file be missing.
	Optional bool
	// Env is the environment, "NAME=value" each; later entries win.
	Env []string
	// Flags are keys with values in text form, as in the environment.
	Flags map[string]string
	// Hostname defaults to os.Hostname.
	Hostname func() (string, error)
}

// Load reads, merges and checks a configuration. Its error, if the fault lies
// in what was configured, is of type Errors and names every fault.
func Load(o Options) (Config, error) {
	var text []byte
	if o.Path != "" {
		var err error
		if text, err = readFile(o.Path); err != nil {
			if !o.Optional || !errors.Is(err, fs.ErrNotExist) {
				return Config{}, fmt.Errorf("read configuration: %w", err)
			}
		}
	}
	return parse(o, text)
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s: longer than %d bytes", path, maxFile)
	}
	return text, nil
}

func parse(o Options, text []byte) (Config, error) {
	l := loader{cfg: Default(), keys: map[string]key{}}
	for _, k := range keys() {
		l.keys[k.name] = k
	}
	l.file(o.Path, text)
	l.env(o.Env)
	l.flags(o.Flags)
	if len(l.errs) > 0 {
		return l.cfg, l.errs
	}
	hostname := o.Hostname
	if hostname == nil {
		hostname = os.Hostname
	}
	if e := l.cfg.settle(hostname); e != nil {
		if p, ok := l.seen[e.Key]; ok {
			e.File, e.Line = o.Path, p
		}
		return l.cfg, Errors{e}
	}
	return l.cfg, nil
}

type loader struct {
	cfg  Config
	keys map[string]key
	seen map[string]int // line by key, of the file
	errs Errors
}

// file applies the TOML text.
func (l *loader) file(path string, text []byte) {
	l.seen = map[string]int{}
	var top map[string]toml.Primitive
	md, err := toml.Decode(string(text), &top)
	if err != nil {
		e := &Error{File: path, Msg: err.Error(), Hint: "the file must be TOML, https://toml.io"}
		if pe, ok := errors.AsType[toml.ParseError](err); ok {
			var shown string
			e.Line, e.Col, shown = locate(string(text), pe.Position.Start)
			e.Key, e.Msg = pe.LastKey, fmt.Sprintf("%.256s, in %.80q", strings.TrimSuffix(pe.Message, "."), shown)
		}
		l.errs = append(l.errs, e)
		return
	}
	w := walker{md: &md, path: path, l: l}
	w.table("", top)
	slices.SortStableFunc(l.errs, func(a, b *Error) int { return a.Line - b.Line })
}

// locate returns the line, the column in characters, and the line's text of a byte of a
// TOML text. The decoder's own line is the next one where a line lacks something at its end.
func locate(text string, at int) (line, col int, shown string) {
	text = strings.TrimPrefix(text, "\ufeff") // the decoder does not count it
	before := text[:min(max(at, 0), len(text))]
	begin := strings.LastIndexByte(before, '\n') + 1
	shown, _, _ = strings.Cut(text[begin:], "\n")
	return strings.Count(before, "\n") + 1, utf8.RuneCountInString(before[begin:]) + 1, strings.TrimSpace(shown)
}

// walker visits the tree that the decoder made.
type walker struct {
	md   *toml.MetaData
	path string
	l    *loader
}

func (w *walker) table(prefix string, table map[string]toml.Primitive) {
	for _, name := range sortedKeys(table) {
		full := prefix + name
		v, line := w.value(table[name])
		w.l.seen[full] = line
		k, known := w.l.keys[full]
		_, isTable := v.(map[string]any)
		switch {
		case known:
			if err := k.set(&w.l.cfg, v); err != nil {
				w.l.fail(w.path, line, k, err)
				continue
			}
			w.l.cfg.origin[full] = FromFile
		case retired(full):
		case isTable && w.l.section(full):
			var sub map[string]toml.Primitive
			// Decoding a table into primitives cannot go wrong.
			_ = w.md.PrimitiveDecode(table[name], &sub)
			w.table(full+".", sub)
		default:
			w.l.unknown(w.path, line, full)
		}
	}
}

// value returns what p holds and the line of its key.
func (w *walker) value(p toml.Primitive) (any, int) {
	var g grab
	err := w.md.PrimitiveDecode(p, &g)
	if pe, ok := errors.AsType[toml.ParseError](err); ok {
		return g.v, pe.Position.Line
	}
	return g.v, 0
}

// grab takes a value and fails, because the decoder tells positions only with
// errors.
type grab struct{ v any }

var errGrabbed = errors.New("grabbed")

// UnmarshalTOML implements toml.Unmarshaler.
func (g *grab) UnmarshalTOML(v any) error {
	g.v = v
	return errGrabbed
}

// retired reports whether name is a key of an earlier release that no longer
// has an effect. Files made from that release's example still set it, so it is
// accepted with any value.
func retired(name string) bool { return name == "coord.legacy" }

// section reports whether some key lies below name.
func (l *loader) section(name string) bool {
	if name == "coord" {
		return true // only retired keys are left in it
	}
	for k := range l.keys {
		if strings.HasPrefix(k, name+".") {
			return true
		}
	}
	return false
}

func (l *loader) fail(file string, line int, k key, err error) {
	hint := "see config.example.toml"
	if len(k.doc) > 0 {
		hint = k.name + ": " + strings.Join(k.doc, " ")
	}
	l.errs = append(l.errs, &Error{File: file, Line: line, Key: k.name, Msg: err.Error(), Hint: hint})
}

func (l *loader) unknown(file string, line int, name string) {
	hint := "`skein config show` lists all keys"
	if near := l.nearest(name); near != "" {
		hint = fmt.Sprintf("did you mean %s?", near)
	}
	l.errs = append(l.errs, &Error{File: file, Line: line, Key: name, Msg: "unknown key", Hint: hint})
}

// nearest returns the known key that is most like name, or "".
func (l *loader) nearest(name string) string {
	best, dist := "", 4
	for _, k := range sortedKeys(l.keys) {
		if d := spelling.Distance(name, k); d < dist {
			best, dist = k, d
		}
		// The right word in the wrong section.
		if i := strings.LastIndexByte(name, '.'); best == "" && strings.HasSuffix(k, "."+name[i+1:]) {
			best = k
		}
	}
	return best
}

// env applies the environment.
func (l *loader) env(env []string) {
	values := map[string]string{}
	for _, e := range env {
		if name, v, ok := strings.Cut(e, "="); ok {
			values[name] = v
		}
	}
	for _, k := range keys() {
		if v, ok := values[Env(k.name)]; ok {
			l.override("environment "+Env(k.name), k, v, FromEnv)
			delete(values, Env(k.name))
		}
	}
	delete(values, Env("coord.legacy")) // retired
	for _, name := range sortedKeys(values) {
		if l.envSection(name) {
			l.unknownEnv(name)
		}
	}
}

// envSection reports whether name looks like a key's variable: it begins like
// those of a section. Others that begin with SKEIN_ are not ours to judge.
func (l *loader) envSection(name string) bool {
	for k := range l.keys {
		section, _, _ := strings.Cut(k, ".")
		if name == Env(section) || strings.HasPrefix(name, Env(section)+"_") {
			return true
		}
	}
	return false
}

func (l *loader) unknownEnv(name string) {
	hint := "`skein config show` lists all keys"
	for _, k := range sortedKeys(l.keys) {
		if spelling.Distance(name, Env(k)) < 4 {
			hint = fmt.Sprintf("did you mean %s?", Env(k))
			break
		}
	}
	l.errs = append(l.errs, &Error{File: "environment", Key: name, Msg: "unknown key", Hint: hint})
}

func (l *loader) flags(flags map[string]string) {
	for _, name := range sortedKeys(flags) {
		k, ok := l.keys[name]
		if !ok {
			l.unknown("flags", 0, name)
			continue
		}
		l.override("flags", k, flags[name], FromFlag)
	}
}

func (l *loader) override(file string, k key, text string, from Origin) {
	v, err := k.parse(text)
	if err == nil {
		err = k.set(&l.cfg, v)
	}
	if err != nil {
		l.fail(file, 0, k, err)
		return
	}
	delete(l.seen, k.name)
	l.cfg.origin[k.name] = from
}
