package event

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
)

// sources are the parsed files of this package and of cluster/job.
func sources(t *testing.T) []*ast.File {
	t.Helper()
	names, err := filepath.Glob("../*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, name := range names {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}

// fieldDocs returns the comments of the fields of all structs, by
// "Struct.Field".
func fieldDocs(files []*ast.File) map[string]string {
	docs := map[string]string{}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			st, ok := spec.Type.(*ast.StructType)
			if !ok {
				return true
			}
			for _, field := range st.Fields.List {
				for _, name := range field.Names {
					text := field.Doc.Text() + field.Comment.Text()
					docs[spec.Name.Name+"."+name.Name] = strings.TrimSpace(strings.ReplaceAll(text, "\n", " "))
				}
			}
			return true
		})
	}
	return docs
}

// declared returns the values of all constants of type Kind.
func declared(files []*ast.File) map[Kind]bool {
	kinds := map[Kind]bool{}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			if id, ok := spec.Type.(*ast.Ident); ok && id.Name == "Kind" && len(spec.Values) == 1 {
				if lit, ok := spec.Values[0].(*ast.BasicLit); ok {
					kinds[Kind(strings.Trim(lit.Value, `"`))] = true
				}
			}
			return true
		})
	}
	return kinds
}

// TestEventsReference keeps docs/events.md equal to KindTable, that complete, and
// every field of a body explained.
func TestEventsReference(t *testing.T) {
	files := sources(t)
	docs, left := fieldDocs(files), declared(files)
	var want bytes.Buffer
	want.WriteString("# Events\n\nGenerated from the table in `cluster/event`, by its tests. `skein events` shows them, `GET /v1/events` streams them.\n\n" +
		"An event has a source (host and incarnation), a sequence number, a clock, a term, a kind and a body. Events *with authority*\n" +
		"are an exercise of the lease: they carry the writer's term, and are void beyond the cut of a later term. The others state a\n" +
		"fact. Bodies are JSON objects; readers ignore fields they do not know, fields may be added and never change their meaning.\n" +
		"Keys and hashes are public. No body holds a secret.\n")
	want.WriteString("\n| Kind | Authority | Written by | |\n|---|---|---|---|\n")
	for _, k := range KindTable() {
		authority := "-"
		if k.Kind.Authority() {
			authority = "yes"
		}
		fmt.Fprintf(&want, "| [`%s`](#%s) | %s | %s | %s |\n", k.Kind, k.Kind, authority, k.Writer, k.Meaning)
	}
	for _, k := range KindTable() {
		if !left[k.Kind] || !k.Kind.Known() {
			t.Errorf("kind %q is described twice, or no such kind is known", k.Kind)
		}
		delete(left, k.Kind)
		fmt.Fprintf(&want, "\n## %s\n\n| Field | Type | |\n|---|---|---|\n", k.Kind)
		describe(t, &want, docs, reflect.TypeOf(k.Body), "")
		example, err := json.Marshal(k.Body)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&want, "\n```json\n%s\n```\n", example)
	}
	if len(left) > 0 {
		t.Errorf("kinds without a row in KindTable: %v", left)
	}
	path := filepath.Join("..", "..", "docs", "events.md")
	if os.Getenv("SKEIN_UPDATE") == "1" {
		if err := os.WriteFile(path, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile(path); err != nil || !bytes.Equal(have, want.Bytes()) {
		t.Errorf("docs/events.md is stale (%v): run SKEIN_UPDATE=1 go test ./cluster/event -run EventsReference", err)
	}
}

// describe writes a row per field of a body, and of the structs in it that
// only events have.
func describe(t *testing.T, want *bytes.Buffer, docs map[string]string, typ reflect.Type, prefix string) {
	t.Helper()
	for f := range typ.Fields() {
		if f.Anonymous {
			describe(t, want, docs, f.Type, prefix)
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if typ == reflect.TypeFor[job.Attempt]() && name == "job" {
			continue // an event names it once, beside the list
		}
		doc := docs[typ.Name()+"."+f.Name]
		if name == "" || doc == "" {
			t.Errorf("field %s of %s: no JSON name, or no comment that explains it", f.Name, typ)
		}
		doc = strings.ReplaceAll(doc, "MaxReason", strconv.Itoa(cluster.MaxReason))
		fmt.Fprintf(want, "| `%s%s` | %s | %s |\n", prefix, name, jsonType(f.Type), doc)
		inner := f.Type
		for inner.Kind() == reflect.Slice || inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		switch inner {
		case reflect.TypeFor[job.Attempt](), reflect.TypeFor[job.Result](), reflect.TypeFor[job.WorkShare](), reflect.TypeFor[job.Spec](),
			reflect.TypeFor[Accept](), reflect.TypeFor[job.Span](), reflect.TypeFor[job.Permission](), reflect.TypeFor[job.Replication](), reflect.TypeFor[job.EarlyStop]():
			describe(t, want, docs, inner, prefix+name+".")
		}
	}
}

// jsonType is how a value of a type appears in JSON.
func jsonType(typ reflect.Type) string {
	switch {
	case typ == reflect.TypeFor[[]byte]():
		return "base64"
	case typ == reflect.TypeFor[cluster.Hash]():
		return "hex"
	}
	switch typ.Kind() {
	case reflect.Bool:
		return "boolean"
	case reflect.String:
		return "text"
	case reflect.Slice:
		return "list of " + jsonType(typ.Elem())
	case reflect.Pointer:
		return jsonType(typ.Elem())
	case reflect.Struct, reflect.Map:
		return "object"
	}
	return "number"
}
