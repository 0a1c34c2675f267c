package openapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"strings"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/api"
)

// Param is a parameter of a request, beside those in its path.
type Param struct {
	Name   string
	Header bool // or else in the query
	Type   any  // a value of it; a slice: it may be there more than once
	About  string
}

// Shape says what a route takes and gives, by values of the types.
type Shape struct {
	Params []Param
	Takes  any   // nil: no body; Bytes: not JSON
	Gives  []any // an answer, or each line of a stream, is one of them; Bytes, Text: not JSON
	Lines  bool
}

// Bodies that are no JSON.
type (
	// Bytes are any.
	Bytes struct{}
	// Text is for people, or of a format of its own.
	Text struct{}
)

// Route is what is told of a route.
type Route struct {
	Method, Path string
	Needs        access.Right
	Open         bool
	Shape
}

// CheckRights refuses routes of which nobody said who may ask.
func CheckRights(table []Route) error {
	for _, rt := range table {
		if rt.Needs == 0 && !rt.Open {
			return fmt.Errorf("%s %s needs no right and is not open", rt.Method, rt.Path)
		}
	}
	return nil
}

// Many says that it may be there more than once.
func (p Param) Many() bool { return reflect.TypeOf(p.Type).Kind() == reflect.Slice }

var inPath = regexp.MustCompile(`\{(\w+)\}`)

type object = map[string]any

func ref(kind, name string) object { return object{"$ref": "#/components/" + kind + "/" + name} }

// Describe describes the routes in OpenAPI 3.1.
func Describe(table []Route) map[string]any {
	s := schemas{}
	paths := map[string]object{}
	for _, rt := range table {
		if paths[rt.Path] == nil {
			paths[rt.Path] = object{}
		}
		paths[rt.Path][strings.ToLower(rt.Method)] = s.operation(rt)
	}
	proofs := object{}
	for name, about := range map[string]string{
		access.HeaderKey: "id of the user's key", access.HeaderTime: "Unix time in milliseconds", access.HeaderNonce: "16 random bytes in base64url, used once",
		access.HeaderSignature: "of the request, by the user's key: see docs/api.md",
	} {
		proofs[name] = object{"type": "apiKey", "in": "header", "name": name, "description": about}
	}
	proofs["token"] = object{
		"type": "http", "scheme": "bearer", "bearerFormat": "JWT",
		"description": "signed by the user's own key, for 15 minutes at most; reads only, unless api.bearer is all",
	}
	return object{
		"openapi":  "3.1.0",
		"info":     object{"title": "skein", "version": api.APIVersion},
		"servers":  []any{object{"url": "/"}},
		"paths":    paths,
		"security": []any{object{access.HeaderKey: []any{}, access.HeaderTime: []any{}, access.HeaderNonce: []any{}, access.HeaderSignature: []any{}}, object{"token": []any{}}, object{}},
		"components": object{
			"schemas": s, "securitySchemes": proofs, "responses": object{"Problem": s.problem()},
			"parameters": object{"patience": param(Param{Name: api.HeaderTimeout, Header: true, Type: 0, About: "for how many milliseconds the caller waits"})},
		},
	}
}

// operation describes one route.
func (s schemas) operation(rt Route) object {
	answers := object{"200": s.answer(rt.Shape), "default": ref("responses", "Problem")}
	op := object{"responses": answers}
	if _, probe := rt.Gives[0].(api.Health); probe {
		answers["503"] = s.answer(rt.Shape)
	}
	if rt.Open {
		op["security"] = []any{}
	} else {
		op["description"] = "needs the role " + map[access.Right]string{
			access.Look: "viewer", access.Read: "viewer, of own jobs submitter", access.Use: "submitter", access.Operate: "operator", access.Debug: "operator",
		}[rt.Needs]
	}
	if rt.Takes != nil {
		media, schema := "application/json", object{}
		if rt.Takes == any(Bytes{}) {
			media = "application/octet-stream"
		} else {
			schema = s.of(reflect.TypeOf(rt.Takes), "Asked")
		}
		op["requestBody"] = object{"content": object{media: object{"schema": schema}}}
	}
	var params []any
	for _, m := range inPath.FindAllStringSubmatch(rt.Path, -1) {
		params = append(params, object{"name": m[1], "in": "path", "required": true, "schema": object{"type": "string"}})
	}
	for _, p := range rt.Params {
		params = append(params, param(p))
	}
	if strings.HasPrefix(rt.Path, "/v1/") {
		params = append(params, ref("parameters", "patience"))
	}
	if params != nil {
		op["parameters"] = params
	}
	return op
}

func param(p Param) object {
	out := object{"name": p.Name, "in": "query", "description": p.About, "schema": schemas{}.of(reflect.TypeOf(p.Type), "")}
	if p.Header {
		out["in"] = "header"
	}
	if p.Type == any(false) {
		out["allowEmptyValue"] = true // which is yes
	}
	return out
}

// answer describes what is answered when all is well.
func (s schemas) answer(about Shape) object {
	out := object{"description": "done"}
	var list []any
	for _, v := range about.Gives {
		list = append(list, s.of(reflect.TypeOf(v), ""))
	}
	_, bytes := about.Gives[0].(Bytes)
	switch _, text := about.Gives[0].(Text); {
	case bytes:
		out["content"] = object{"application/octet-stream": object{"schema": object{}}}
	case text:
		out["content"] = object{"text/plain": object{"schema": object{"type": "string"}}}
	case about.Lines:
		out["description"] = "each line is one of these; empty lines keep the stream alive. " +
			"As server-sent events: data is the line (of a watch what it has as data), event says what it is, id where to go on"
		out["content"] = object{
			"application/x-ndjson": object{"schema": object{"anyOf": append(list, s.of(reflect.TypeFor[api.StreamProblem](), ""))}},
			"text/event-stream":    object{"schema": object{"type": "string"}},
		}
	default:
		out["content"] = object{"application/json": object{"schema": list[0]}}
	}
	return out
}

// problem describes the answer to what fails.
func (s schemas) problem() object {
	var codes []string
	for _, code := range api.Codes() {
		codes = append(codes, fmt.Sprintf("%s (%d)", code, api.Errorf(code, "").Status))
	}
	return object{
		"description": "what is wrong; code is one of " + strings.Join(codes, ", "),
		"content":     object{"application/problem+json": object{"schema": s.of(reflect.TypeFor[api.Problem](), "")}},
	}
}

// Write answers with the description.
func Write(w http.ResponseWriter, table []Route) error {
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(Describe(table))
}
