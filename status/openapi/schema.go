package openapi

import (
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/skein-project/skein/api"
)

// schemas are those of named structs, by name.
type schemas object

// of returns the schema of t. Suffix tells what is asked, all of which may be left
// out, from what is answered.
func (s schemas) of(t reflect.Type, suffix string) object {
	switch {
	case t.Kind() == reflect.Pointer:
		return object{"anyOf": []any{s.of(t.Elem(), suffix), object{"type": "null"}}}
	case t == reflect.TypeFor[api.Code]():
		return object{"type": "string", "enum": api.Codes()}
	case t == reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case t == reflect.TypeFor[json.RawMessage](), t.Implements(reflect.TypeFor[json.Marshaler]()):
		return object{}
	case t.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		return object{"type": "string"}
	}
	switch t.Kind() {
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Float32, reflect.Float64:
		return object{"type": "number"}
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return object{"type": "string"}
		}
		return object{"type": "array", "items": s.of(t.Elem(), suffix)}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": s.of(t.Elem(), suffix)}
	case reflect.Struct:
		name := t.Name() + suffix
		if s[name] == nil {
			o := object{"type": "object"}
			s[name] = o // before its fields: it may be one of them
			props, required := object{}, []any{}
			s.fields(t, suffix, props, &required)
			o["properties"] = props
			if suffix == "" && len(required) > 0 {
				o["required"] = required
			}
		}
		return object{"$ref": "#/components/schemas/" + name}
	case reflect.Interface:
		return object{}
	}
	return object{"type": "integer"}
}

func (s schemas) fields(t reflect.Type, suffix string, props object, required *[]any) {
	for f := range t.Fields() {
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported():
		case f.Anonymous && name == "":
			s.fields(f.Type, suffix, props, required)
		default:
			if name == "" {
				name = f.Name
			}
			// A field stands before one of the same name of what is embedded.
			*required = slices.DeleteFunc(*required, func(v any) bool { return v == name })
			props[name] = s.of(f.Type, suffix)
			if !strings.Contains(opts, "omit") {
				*required = append(*required, name)
			}
		}
	}
}
