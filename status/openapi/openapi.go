package openapi

import (
	"encoding"
	"encoding/json"
	"net/http"
	"reflect"
	"regexp"
	"strings"
	"time"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/api"
)

// Shape says what a route takes and gives; nil: nothing, or no JSON. Lines has each
// line of the answer be one.
type Shape struct {
	takes, gives any
	lines        bool
}

// Shapes are those of all routes.
var Shapes = map[string]Shape{
	"GET /v1/status":                 {gives: api.Status{}},
	"GET /v1/members":                {gives: api.Members{}},
	"GET /v1/mesh":                   {gives: api.Mesh{}},
	"GET /v1/lease":                  {gives: api.Lease{}},
	"GET /v1/lease/history":          {gives: api.LeaseHistory{}},
	"GET /v1/lease/voters":           {gives: api.Voters{}},
	"GET /v1/workers":                {gives: api.Workers{}},
	"GET /v1/log/snapshots":          {gives: api.LogSnapshots{}},
	"GET /v1/jobs":                   {gives: api.Jobs{}},
	"GET /v1/jobs/{id}":              {gives: api.Job{}},
	"GET /v1/jobs/{id}/history":      {gives: api.JobHistory{}},
	"GET /v1/jobs/{id}/watch":        {gives: api.Job{}, lines: true},
	"GET /v1/jobs/{id}/chunks":       {gives: api.ChunkResult{}, lines: true},
	"GET /v1/events":                 {gives: api.Event{}, lines: true},
	"GET /v1/watch":                  {gives: api.WatchMessage{}, lines: true},
	"GET /v1/version":                {gives: api.Version{}},
	"GET /healthz":                   {gives: api.Health{}},
	"GET /readyz":                    {gives: api.Health{}},
	"GET /metrics":                   {},
	"POST /v1/jobs":                  {takes: api.SubmitRequest{}, gives: api.SubmitResponse{}},
	"POST /v1/jobs/{id}/stop":        {takes: api.StopRequest{}, gives: api.Job{}},
	"POST /v1/jobs/{id}/release":     {gives: api.Released{}},
	"PUT /v1/artefacts":              {gives: api.Artefact{}},
	"GET /v1/users":                  {gives: api.Users{}},
	"PUT /v1/users/{name}":           {takes: api.UserRequest{}, gives: api.UserSet{}},
	"PUT /v1/members/{node}/owner":   {takes: api.OwnerRequest{}, gives: api.OwnerSet{}},
	"GET /v1/groups":                 {gives: api.Groups{}},
	"PUT /v1/groups/{name}":          {takes: api.GroupRequest{}, gives: api.GroupSet{}},
	"GET /v1/events/verify":          {gives: api.LogCheck{}},
	"GET /v1/config":                 {gives: api.Config{}},
	"GET /v1/doctor":                 {gives: api.Doctor{}},
	"GET /v1/tokens":                 {gives: api.Tokens{}},
	"POST /v1/log/snapshots":         {gives: api.LogSnapshotTaken{}},
	"POST /v1/tokens":                {takes: api.TokenRequest{}, gives: api.TokenCreated{}},
	"DELETE /v1/tokens/{id}":         {gives: api.Header{}},
	"POST /v1/lease/step-down":       {takes: api.StepDownRequest{}, gives: api.Lease{}},
	"POST /v1/lease/voters":          {takes: api.VotersRequest{}, gives: api.Voters{}},
	"POST /v1/leave":                 {gives: api.Left{}},
	"POST /v1/members/{node}/remove": {takes: api.RemoveRequest{}, gives: api.Removed{}},
	"POST /v1/mesh/rotate":           {gives: api.Rotated{}},
	"POST /v1/worker/drain":          {takes: api.DrainRequest{}, gives: api.Drain{}},
}

var parameter = regexp.MustCompile(`\{(\w+)\}`)

// Route is what is told of a route.
type Route struct {
	Method, Path string
	Needs        access.Right
	Open         bool
}

// Describe describes the routes in OpenAPI 3.1. Routes without a shape, those of the
// onion addresses, are there without their bodies.
func Describe(table []Route) map[string]any {
	s := schemas{}
	paths := map[string]map[string]any{}
	problem := map[string]any{
		"description": "what is wrong", "content": map[string]any{"application/problem+json": map[string]any{"schema": s.of(reflect.TypeFor[api.Problem](), "")}},
	}
	rights := map[access.Right]string{access.Look: "viewer", access.Read: "viewer, of own jobs submitter", access.Use: "submitter", access.Operate: "operator"}
	for _, rt := range table {
		about := Shapes[rt.Method+" "+rt.Path]
		answer := map[string]any{"description": "done"}
		if about.gives != nil {
			kind := "application/json"
			if about.lines {
				kind = "application/x-ndjson"
			}
			answer["content"] = map[string]any{kind: map[string]any{"schema": s.of(reflect.TypeOf(about.gives), "")}}
		}
		op := map[string]any{"responses": map[string]any{"200": answer, "default": problem}}
		if !rt.Open {
			op["description"] = "needs the role " + rights[rt.Needs]
		}
		if about.takes != nil {
			op["requestBody"] = map[string]any{"content": map[string]any{"application/json": map[string]any{"schema": s.of(reflect.TypeOf(about.takes), "Asked")}}}
		}
		var params []any
		for _, m := range parameter.FindAllStringSubmatch(rt.Path, -1) {
			params = append(params, map[string]any{"name": m[1], "in": "path", "required": true, "schema": map[string]any{"type": "string"}})
		}
		if params != nil {
			op["parameters"] = params
		}
		if paths[rt.Path] == nil {
			paths[rt.Path] = map[string]any{}
		}
		paths[rt.Path][strings.ToLower(rt.Method)] = op
	}
	return map[string]any{
		"openapi":    "3.1.0",
		"info":       map[string]any{"title": "skein", "version": api.APIVersion},
		"paths":      paths,
		"components": map[string]any{"schemas": s},
	}
}

// schemas are those of named structs, by name.
type schemas map[string]any

// of returns the schema of t. Suffix tells what is asked, all of which may be left
// out, from what is answered.
func (s schemas) of(t reflect.Type, suffix string) map[string]any {
	switch {
	case t.Kind() == reflect.Pointer:
		return map[string]any{"anyOf": []any{s.of(t.Elem(), suffix), map[string]any{"type": "null"}}}
	case t == reflect.TypeFor[time.Time]():
		return map[string]any{"type": "string", "format": "date-time"}
	case t == reflect.TypeFor[json.RawMessage](), t.Implements(reflect.TypeFor[json.Marshaler]()):
		return map[string]any{}
	case t.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		return map[string]any{"type": "string"}
	}
	switch t.Kind() {
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Float32, reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return map[string]any{"type": "string"}
		}
		return map[string]any{"type": "array", "items": s.of(t.Elem(), suffix)}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": s.of(t.Elem(), suffix)}
	case reflect.Struct:
		name := t.Name() + suffix
		if s[name] == nil {
			o := map[string]any{"type": "object"}
			s[name] = o // before its fields: it may be one of them
			props, required := map[string]any{}, []any{}
			s.fields(t, suffix, props, &required)
			o["properties"] = props
			if suffix == "" && len(required) > 0 {
				o["required"] = required
			}
		}
		return map[string]any{"$ref": "#/components/schemas/" + name}
	case reflect.Interface:
		return map[string]any{}
	}
	return map[string]any{"type": "integer"}
}

func (s schemas) fields(t reflect.Type, suffix string, props map[string]any, required *[]any) {
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
			props[name] = s.of(f.Type, suffix)
			if !strings.Contains(opts, "omit") {
				*required = append(*required, name)
			}
		}
	}
}

// Write answers with the description.
func Write(w http.ResponseWriter, table []Route) error {
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(Describe(table))
}
