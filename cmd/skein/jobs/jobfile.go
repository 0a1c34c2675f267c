package jobs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/cmd/skein/cli"
)

// maxJobFile bounds a job file, in bytes.
const maxJobFile = 1 << 20

// Keys of a job file that are not of the spec: files to upload, which stand for
// artefact and config, and when a submit is acknowledged.
const (
	keyWasm  = "wasm"
	keyInput = "input"
	keyWait  = "wait"
	keyFiles = "files" // of the spec, with paths to upload in the place of hashes
)

// jobText is a job as a file and flags describe it: the keys of the API's spec
// by their dotted names, and those above.
type jobText struct {
	path   string
	values map[string]any
	lines  map[string]int    // by key, of the file
	flags  map[string]string // by key, the flag that was stronger than the file
	files  map[string]string // to upload, by the names under which chunks find them
}

func newJobText() *jobText {
	return &jobText{values: map[string]any{}, lines: map[string]int{}, flags: map[string]string{}}
}

// readJobFile reads a job file. What it uploads is named from its directory.
func readJobFile(path string) (*jobText, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, cli.NoFile("--file: %s", err)
	}
	if info.Size() > maxJobFile {
		return nil, cli.Usagef("--file: %s has %d bytes, at most %d are allowed", path, info.Size(), maxJobFile)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, cli.Usagef("--file: %s", err)
	}
	t := newJobText()
	t.path = path
	var top map[string]toml.Primitive
	md, err := toml.Decode(string(text), &top)
	if err != nil {
		if pe, ok := errors.AsType[toml.ParseError](err); ok {
			return nil, cli.Usagef("%s:%d: %s", path, pe.Position.Line, pe.Message).WithHint("the file must be TOML, https://toml.io")
		}
		return nil, cli.Usagef("%s: %s", path, err)
	}
	t.walk(&md, "", top)
	absFiles(t.values[keyFiles], filepath.Dir(path))
	for _, key := range []string{keyWasm, keyInput} {
		if name, ok := t.values[key].(string); ok && name != "" && !filepath.IsAbs(name) {
			t.values[key] = filepath.Join(filepath.Dir(path), name)
		}
	}
	return t, nil
}

func (t *jobText) walk(md *toml.MetaData, prefix string, table map[string]toml.Primitive) {
	for name, p := range table {
		var g grabbed
		err := md.PrimitiveDecode(p, &g)
		key := prefix + name
		if pe, ok := errors.AsType[toml.ParseError](err); ok {
			t.lines[key] = pe.Position.Line
		}
		var sub map[string]toml.Primitive
		if _, ok := g.v.(map[string]any); ok && key != keyFiles && md.PrimitiveDecode(p, &sub) == nil {
			t.walk(md, key+".", sub)
			continue
		}
		t.values[key] = g.v
	}
}

// grabbed takes a value and fails, because the decoder tells positions only
// with errors.
type grabbed struct{ v any }

// UnmarshalTOML implements toml.Unmarshaler.
func (g *grabbed) UnmarshalTOML(v any) error {
	g.v = v
	return errors.New("grabbed")
}

// fail says what is wrong with a key, and where it stands.
func (t *jobText) fail(key, format string, args ...any) *cli.Error {
	msg := fmt.Sprintf(format, args...)
	if flag := t.flags[key]; flag != "" {
		return cli.Usagef("%s: %s", flag, msg)
	}
	if line := t.lines[key]; line > 0 {
		return cli.Usagef("%s:%d: %s: %s", t.path, line, key, msg)
	}
	return cli.Usagef("%s: %s", key, msg)
}

// text takes a key that is not of the spec.
func (t *jobText) text(key string) (string, error) {
	v, ok := t.values[key]
	if !ok {
		return "", nil
	}
	s, ok := v.(string)
	if !ok {
		return "", t.fail(key, "%v is not a text", v)
	}
	return s, nil
}

// known refuses a key that no job has.
func (t *jobText) known() error {
	keys := append([]string{keyWasm, keyInput, keyWait}, slices.Sorted(maps.Keys(specFields()))...)
	for _, key := range slices.Sorted(maps.Keys(t.values)) {
		if !slices.Contains(keys, key) {
			return unknownKey(t.fail(key, "unknown key"), key, keys)
		}
	}
	return nil
}

// spec makes the spec, with its defaults. With a module to upload its hash is
// still missing.
func (t *jobText) spec() (job.Spec, error) {
	var s job.Spec
	fields := specFields()
	tree := map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(t.values)) {
		if key == keyWasm || key == keyInput || key == keyWait {
			continue
		}
		v, err := fieldValue(key, fields[key], t.values[key])
		if err != nil {
			return s, t.fail(key, "%s", err)
		}
		put(tree, strings.Split(key, "."), v)
	}
	b, err := json.Marshal(tree)
	if err != nil {
		return s, cli.Usagef("%s: %s", t.path, err)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return s, t.fail(strings.TrimPrefix(kind.Field, "Policy."), "%s is not a %s", kind.Value, kind.Type)
		}
		return s, cli.Usagef("%s: %s", t.path, err)
	}
	s = s.WithDefaults()
	try := s
	if try.Key == "" {
		try.Key = "new"
	}
	if t.values[keyWasm] != nil {
		try.Artefact = cluster.Hash{1} // comes with the upload
	}
	if err := try.Validate(); err != nil {
		return s, t.invalid(err)
	}
	return s, nil
}

// invalid finds where the field stands that a refusal begins with.
func (t *jobText) invalid(err error) error {
	msg := err.Error()
	rest, _ := strings.CutPrefix(msg, job.ErrSpec.Error()+": ")
	if words := strings.FieldsFunc(rest, func(r rune) bool { return r == ' ' || r == ':' }); len(words) > 0 {
		if line := t.lines[words[0]]; line > 0 && t.flags[words[0]] == "" {
			return cli.Usagef("%s:%d: %s", t.path, line, msg)
		}
	}
	return cli.Usagef("%s", msg)
}

func put(tree map[string]any, path []string, v any) {
	for _, name := range path[:len(path)-1] {
		sub, ok := tree[name].(map[string]any)
		if !ok {
			sub = map[string]any{}
			tree[name] = sub
		}
		tree = sub
	}
	tree[path[len(path)-1]] = v
}

// specFields lists the fields of a spec by their dotted names.
func specFields() map[string]reflect.Type {
	out := map[string]reflect.Type{}
	var walk func(prefix string, typ reflect.Type)
	walk = func(prefix string, typ reflect.Type) {
		for f := range typ.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case f.Anonymous && name == "":
				walk(prefix, f.Type)
			case f.Type.Kind() == reflect.Struct:
				walk(prefix+name+".", f.Type)
			default:
				out[prefix+name] = f.Type
			}
		}
	}
	walk("", reflect.TypeFor[job.Spec]())
	return out
}

// fieldValue turns what TOML has for a field into what JSON wants: numbers may
// be texts such as "1e9", "256M" and "10m".
func fieldValue(key string, typ reflect.Type, v any) (any, error) {
	switch typ.Kind() {
	case reflect.Uint64, reflect.Uint32, reflect.Int:
		switch n := v.(type) {
		case float64:
			if n != math.Trunc(n) || math.Abs(n) > 1<<53 {
				return nil, fmt.Errorf("%g is not a whole number", n)
			}
			return int64(n), nil
		case string:
			if strings.HasSuffix(key, "_bytes") {
				return cli.ParseBytes(n)
			}
			if u, err := strconv.ParseUint(n, 10, 64); err == nil {
				return u, nil
			}
			return cli.ParseCount(n)
		}
	case reflect.Float64:
		if s, ok := v.(string); ok && strings.HasSuffix(key, "_seconds") {
			d, err := time.ParseDuration(s)
			if err != nil {
				return nil, fmt.Errorf("%q is not a time like 90s or 10m", s)
			}
			return d.Seconds(), nil
		}
		if f, ok := v.(float64); ok && (math.IsNaN(f) || math.IsInf(f, 0)) {
			return nil, errors.New("is not finite")
		}
	}
	return v, nil
}

// specTOML is a spec as a job file.
func specTOML(s job.Spec) ([]byte, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode job: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var tree map[string]any
	if err := d.Decode(&tree); err != nil {
		return nil, fmt.Errorf("encode job: %w", err)
	}
	for key, zero := range map[string]bool{"artefact": s.Artefact.IsZero(), "config": s.Config.IsZero(), "chunk": s.Chunk == 0} {
		if zero {
			delete(tree, key)
		}
	}
	plainNumbers(tree)
	var out bytes.Buffer
	e := toml.NewEncoder(&out)
	e.Indent = ""
	if err := e.Encode(tree); err != nil {
		return nil, fmt.Errorf("encode job: %w", err)
	}
	return out.Bytes(), nil
}

// plainNumbers turns JSON's numbers into those that TOML has; what is too large
// for it becomes a text.
func plainNumbers(tree map[string]any) {
	for key, v := range tree {
		switch v := v.(type) {
		case map[string]any:
			plainNumbers(v)
		case json.Number:
			if i, err := v.Int64(); err == nil {
				tree[key] = i
			} else if _, err := strconv.ParseUint(v.String(), 10, 64); err == nil {
				tree[key] = v.String()
			} else if f, err := v.Float64(); err == nil {
				tree[key] = f
			}
		}
	}
}

// unknownKey says which key may be meant, or which there are.
func unknownKey(e *cli.Error, key string, known []string) error {
	if near := cli.Nearest(key, known); near != "" {
		return e.WithHint("did you mean %s?", near)
	}
	return e.WithHint("the keys are %s", strings.Join(known, ", "))
}
