package archtest

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
)

// Bounds of a package's product code, which is every .go file of its directory
// but tests and generated ones. They are met with new walls; what exceeds one
// all the same stands in exceptions with its reason.
const (
	MaxPackage = 3000 // lines of a package
	MaxMethods = 40   // methods of one type
	MaxFields  = 15   // fields of one struct that holds state
)

// size is what the bounds are about, of one package.
type size struct {
	lines   int
	methods map[string]int // by type
	fields  map[string]int // by struct that holds state
}

// measure reads the product code in a directory. wire says that its structs are
// records, not state.
func measure(dir string, wire bool) (size, error) {
	s := size{methods: map[string]int{}, fields: map[string]int{}}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return s, err
	}
	seen := map[[2]string]bool{} // a method may stand in several files, one for each system
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return s, err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			return s, fmt.Errorf("measure package: %w", err)
		}
		if ast.IsGenerated(file) {
			continue
		}
		s.lines += bytes.Count(text, []byte("\n"))
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if on := receiver(d); on != "" && !seen[[2]string{on, d.Name.Name}] {
					seen[[2]string{on, d.Name.Name}] = true
					s.methods[on]++
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if named, ok := spec.(*ast.TypeSpec); ok && !wire {
						s.addStruct(named)
					}
				}
			}
		}
	}
	return s, nil
}

func (s size) addStruct(named *ast.TypeSpec) {
	st, ok := named.Type.(*ast.StructType)
	if !ok || !holdsState(named.Name.Name, st) {
		return
	}
	for _, f := range st.Fields.List {
		s.fields[named.Name.Name] += max(1, len(f.Names)) // an embedded field has no name
	}
}

// receiver is the name of the type that a function is a method of, or "".
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return ""
	}
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// holdsState says whether the bound of fields is about a struct: not if it is
// options, configuration or metrics, which say so in their name, nor a record
// all of whose fields have tags for an encoding.
func holdsState(name string, st *ast.StructType) bool {
	lower := strings.ToLower(name)
	if slices.ContainsFunc([]string{"options", "config", "metrics"}, func(s string) bool { return strings.HasSuffix(lower, s) }) {
		return false
	}
	return slices.ContainsFunc(st.Fields.List, func(f *ast.Field) bool { return !encoded(f) })
}

func encoded(f *ast.Field) bool {
	if f.Tag == nil {
		return false
	}
	tag := reflect.StructTag(strings.Trim(f.Tag.Value, "`"))
	for _, key := range []string{"json", "toml"} {
		if _, ok := tag.Lookup(key); ok {
			return true
		}
	}
	return false
}

// excess lists what exceeds the bounds: the package as "", a type by its name.
func (s size) excess(lines int) map[string]string {
	over := map[string]string{}
	if s.lines > lines {
		over[""] = fmt.Sprintf("has %d lines, at most %d are allowed", s.lines, lines)
	}
	for name, n := range s.methods {
		if n > MaxMethods {
			over[name] = fmt.Sprintf("has %d methods, at most %d are allowed", n, MaxMethods)
		}
	}
	for name, n := range s.fields {
		if n > MaxFields {
			over[name] = strings.TrimPrefix(fmt.Sprintf("%s and %d fields, at most %d are allowed", over[name], n, MaxFields), " and ")
		}
	}
	return over
}
