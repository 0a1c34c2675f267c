package load

import (
	"encoding/base64"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Inputs are what a scenario names and does not contain.
type Inputs struct {
	Rows   map[string]*Rows // by the name of the set
	Env    func(string) (string, bool)
	Secret func(string) (string, bool)
}

// Plan is a scenario that is ready to run.
type Plan struct {
	*Scenario
	Slots    []string // names of what is extracted
	Sets     []Set
	Flows    map[string]*Flow
	Setup    *Flow // nil: none
	Teardown *Flow // nil: none
	Steps    []*Step
	Checks   []CheckName
	Secrets  []string // values that no output may show
}

// Set is data with its rows.
type Set struct {
	Data
	Rows *Rows
}

// CheckName tells a check of a step apart from all others.
type CheckName struct{ Step, Text string }

// Flow is what a user does in an iteration.
type Flow struct {
	Name  string
	Steps []*Step
	// Graph: steps begin as soon as those that they come after have ended, else one
	// after the other.
	Graph bool
	Sets  []int // sets of data that its templates use
}

// Step is one request, and what is expected of its answer.
type Step struct {
	Series   int // its place in Plan.Steps
	Name     string
	After    []int // places in the flow
	ThinkMin time.Duration
	ThinkMax time.Duration
	Request
	Expect
}

// Request is what a step sends.
type Request struct {
	Method    string
	Origin    Origin // where it goes, if Dynamic is false
	Dynamic   bool   // URL is only known when it is filled
	URL       Template
	Target    Template // what follows the origin
	Headers   []Header
	Body      Template
	HasBody   bool
	Redirects int
	Messages  int    // of a WebSocket: how many are waited for
	Call      string // of gRPC: "package.Service/Method"
	Hook      Hook
	Timeout   time.Duration
}

// Expect is what a step expects of an answer, and takes from it.
type Expect struct {
	Checks     []*Check
	FirstCheck int // its first one in Plan.Checks
	Extract    []*Extract
	NeedsBody  bool
	OfStatus   bool // a check decides about the status
}

// Header is one line of a request's head.
type Header struct {
	Name  string
	Value Template
}

// Origin is where requests go.
type Origin struct {
	TLS  bool
	Host string // as the URL has it, for the Host header
	Name string // or address
	Port uint16
}

func (o Origin) String() string {
	if o.TLS {
		return "https://" + o.Host
	}
	return "http://" + o.Host
}

// schemes of a URL. The last two are for WebSockets, and mean the first two.
var schemes = []string{"http", "https", "ws", "wss"}

// SplitURL takes a URL apart into origin and target.
func SplitURL(raw string) (Origin, string, error) {
	scheme, rest, ok := strings.Cut(raw, "://")
	scheme = strings.ToLower(scheme)
	if !ok || !slices.Contains(schemes, scheme) {
		return Origin{}, "", fmt.Errorf("%.80q: want http:// or https://", raw)
	}
	n := strings.IndexAny(rest, "/?#")
	if n < 0 {
		n = len(rest)
	}
	host, target := rest[:n], rest[n:]
	target, _, _ = strings.Cut(target, "#")
	if !strings.HasPrefix(target, "/") {
		target = "/" + target
	}
	u, err := url.Parse(scheme + "://" + host)
	if err != nil {
		return Origin{}, "", fmt.Errorf("%.80q: the host is no host", raw)
	}
	o := Origin{TLS: scheme == "https" || scheme == "wss", Host: host, Name: u.Hostname(), Port: 80}
	if o.TLS {
		o.Port = 443
	}
	if p := u.Port(); p != "" {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil || n == 0 {
			return Origin{}, "", fmt.Errorf("%.80q: %s is no port", raw, p)
		}
		o.Port = uint16(n)
	}
	switch {
	case u.User != nil:
		return Origin{}, "", fmt.Errorf("%.80q: names and passwords belong to auth", raw)
	case o.Name == "" || len(o.Name) > 253 || strings.ContainsAny(host, " \t\r\n%\"<>\\^`{|}"):
		return Origin{}, "", fmt.Errorf("%.80q: the host is no host", raw)
	}
	return o, target, nil
}

// Compile makes a plan. Its error is of type Faults.
func (s *Scenario) Compile(in Inputs) (*Plan, error) {
	p := &Plan{Scenario: s, Flows: map[string]*Flow{}}
	c := &compiler{s: s, p: p, scope: scope{vars: s.Vars, env: in.Env, secret: in.Secret}}
	for _, d := range s.Data {
		r := in.Rows[d.Name]
		if r == nil {
			r = &Rows{}
			s.f.add(d.at.key("file"), "", "its rows were not read")
		}
		p.Sets = append(p.Sets, Set{Data: d, Rows: r})
		c.scope.sets = append(c.scope.sets, dataSet{d.Name, r.Columns})
	}
	names := map[string]int{}
	order := slices.Sorted(maps.Keys(s.flows))
	if i := slices.Index(order, "setup"); i > 0 { // what it extracts all others may use
		order = slices.Insert(slices.Delete(order, i, i+1), 0, "setup")
	}
	for _, name := range order {
		for _, st := range s.flows[name] {
			names[st.name]++
		}
	}
	for _, name := range order {
		c.flow(name, names)
	}
	p.Setup, p.Teardown = p.Flows["setup"], p.Flows["teardown"]
	p.Slots, p.Secrets = c.scope.slots, c.scope.secrets
	return p, s.f.err()
}

type compiler struct {
	s     *Scenario
	p     *Plan
	scope scope
	setup []string // what setup extracts
}

func (c *compiler) fail(at place, hint string, err error) { c.s.f.add(at, hint, "%s", err) }

func (c *compiler) flow(name string, names map[string]int) {
	f := &Flow{Name: name}
	raw := c.s.flows[name]
	for _, st := range raw {
		f.Graph = f.Graph || st.hasAfter
	}
	extracted := map[string]bool{}
	for _, st := range raw {
		step := &Step{
			Series: len(c.p.Steps), Name: st.name, ThinkMin: st.think[0], ThinkMax: st.think[1],
			Request: Request{Method: st.method, Redirects: st.redirects, Messages: st.messages, Timeout: st.timeout, Hook: st.hook}, Expect: Expect{FirstCheck: len(c.p.Checks)},
		}
		if step.Timeout == 0 {
			step.Timeout = DefaultTimeout
		}
		if names[st.name] > 1 {
			step.Name = name + "." + st.name
		}
		f.Steps = append(f.Steps, step)
		c.p.Steps = append(c.p.Steps, step)
		for _, one := range st.after {
			i := slices.IndexFunc(raw, func(r rawStep) bool { return r.name == one })
			if i < 0 {
				c.fail(st.at.key("after"), "", fmt.Errorf("the flow has no step %q", one))
				continue
			}
			step.After = append(step.After, i)
		}
		for _, text := range st.checks {
			c.p.Checks = append(c.p.Checks, CheckName{step.Name, text})
		}
		for _, e := range st.extract {
			if f.Graph && extracted[e.name] { // steps that run at a time would both write it
				c.fail(e.at, "", fmt.Errorf("another step of a flow with after extracts %q as well", e.name))
			}
			extracted[e.name] = true
			c.extract(step, e)
		}
	}
	before := c.before(f, raw)
	for i, st := range raw {
		reach := map[string]bool{}
		for _, one := range c.setup {
			reach[one] = true
		}
		for j := range raw {
			if before[i][j] {
				for _, e := range raw[j].extract {
					reach[e.name] = true
				}
			}
		}
		c.scope.reach = reach
		c.request(f.Steps[i], st)
	}
	if name == "setup" {
		for _, st := range raw {
			for _, e := range st.extract {
				c.setup = append(c.setup, e.name)
			}
		}
	}
	for i := range c.p.Sets {
		if slices.ContainsFunc(f.Steps, func(s *Step) bool { return s.uses(i) }) {
			f.Sets = append(f.Sets, i)
		}
	}
	c.p.Flows[name] = f
}

// before says which steps have ended when one begins; it finds cycles.
func (c *compiler) before(f *Flow, raw []rawStep) []map[int]bool {
	out := make([]map[int]bool, len(raw))
	if !f.Graph {
		for i := range raw {
			out[i] = map[int]bool{}
			for j := range i {
				out[i][j] = true
			}
		}
		return out
	}
	var visit func(i int, open []int) map[int]bool
	visit = func(i int, open []int) map[int]bool {
		if slices.Contains(open, i) {
			c.fail(raw[i].at.key("after"), "", fmt.Errorf("step %q comes after itself", raw[i].name))
			return map[int]bool{}
		}
		if out[i] != nil {
			return out[i]
		}
		all := map[int]bool{}
		for _, j := range f.Steps[i].After {
			all[j] = true
			maps.Copy(all, visit(j, append(open, i)))
		}
		out[i] = all
		return all
	}
	for i := range raw {
		visit(i, nil)
	}
	return out
}

func (c *compiler) extract(step *Step, raw rawExtract) {
	e := &Extract{Name: raw.name, header: raw.header, Slot: slices.Index(c.scope.slots, raw.name)}
	if _, ok := c.s.Vars[raw.name]; ok {
		c.fail(raw.at, "", fmt.Errorf("vars has %q as well", raw.name))
	}
	if e.Slot < 0 {
		e.Slot = len(c.scope.slots)
		c.scope.slots = append(c.scope.slots, raw.name)
	}
	if raw.json != "" {
		p, err := ParsePath(raw.json)
		if err != nil {
			c.fail(raw.at.key("json"), "", err)
		}
		e.path, step.NeedsBody = &p, true
	}
	if raw.regex != "" {
		re, err := regexp.Compile(raw.regex)
		if err != nil {
			c.fail(raw.at.key("regex"), "the syntax is that of RE2", err)
		}
		e.re, step.NeedsBody = re, true
	}
	step.Extract = append(step.Extract, e)
}

// template compiles a text of a step.
func (c *compiler) template(at place, text string, e escape) Template {
	t, err := c.scope.compile(text, e)
	if err != nil {
		c.fail(at, "", err)
	}
	if e != asIs {
		for i := range t.parts {
			if p := &t.parts[i]; p.kind == literal && p.text != "" {
				p.text = string(escaped([]byte(p.text), 0, e))
			}
		}
	}
	return t
}

func (c *compiler) request(step *Step, st rawStep) {
	key := st.at.key(strings.ToLower(st.method))
	step.URL = c.template(key, st.url, inURL)
	c.origin(step, key)
	if st.method == GRPC {
		c.call(step, key, st.url)
	}
	headers := map[string]string{}
	maps.Copy(headers, c.s.HTTP.Headers)
	maps.Copy(headers, st.headers)
	add := func(at place, name, value string) {
		if !ValidHeaderName(name) || strings.EqualFold(name, "Content-Length") || strings.EqualFold(name, "Transfer-Encoding") || strings.EqualFold(name, "Connection") {
			c.fail(at, "", fmt.Errorf("%q is no header that can be set", name))
			return
		}
		if strings.ContainsAny(value, "\r\n\x00") {
			c.fail(at, "", fmt.Errorf("the value of %s has an end of line", name))
		}
		step.Headers = append(step.Headers, Header{name, c.template(at, value, asIs)})
	}
	kind := ""
	switch {
	case st.hasJSON:
		kind, step.HasBody = "application/json", true
		if err := c.jsonBody(step, st.at.key("json"), st.json, 0); err != nil {
			c.fail(st.at.key("json"), "", err)
		}
	case st.form != nil:
		kind, step.HasBody = "application/x-www-form-urlencoded", true
		for i, name := range slices.Sorted(maps.Keys(st.form)) {
			if i > 0 {
				step.Body.add(part{text: "&"})
			}
			step.Body.add(part{text: string(escaped([]byte(name), 0, inForm)) + "="})
			for _, p := range c.template(st.at.key("form").key(name), st.form[name], inForm).parts {
				step.Body.add(p)
			}
		}
	case st.body != "":
		step.HasBody, step.Body = true, c.template(st.at.key("body"), st.body, asIs)
	}
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		if strings.EqualFold(name, "Content-Type") {
			kind = ""
		}
		add(st.at.key("headers").key(name), name, headers[name])
	}
	if kind != "" && st.method != WebSocket && st.method != GRPC {
		add(st.at, "Content-Type", kind)
	}
	switch {
	case st.bearer != "":
		add(st.at.key("auth").key("bearer"), "Authorization", "Bearer "+st.bearer)
	case st.basicUser != "":
		c.basic(step, st)
	}
	for i, text := range st.checks {
		check, err := ParseCheck(text)
		if err != nil {
			c.fail(st.at.key("check").item(i), "", err)
			continue
		}
		step.Checks = append(step.Checks, check)
		step.NeedsBody = step.NeedsBody || check.NeedsBody()
		step.OfStatus = step.OfStatus || check.OfStatus()
	}
}

// basic makes the header of a user and a password.
func (c *compiler) basic(step *Step, st rawStep) {
	at := st.at.key("auth").key("basic")
	t := c.template(at, st.basicUser+":"+st.basicPassword, asIs)
	value := Template{parts: []part{{text: "Basic "}}}
	if text, ok := t.Const(); ok {
		text = base64.StdEncoding.EncodeToString([]byte(text))
		if len(c.scope.secrets) > 0 {
			c.scope.secrets = append(c.scope.secrets, text)
		}
		value.add(part{text: text})
	} else {
		value.add(part{kind: call, function: fnBase64, args: []Template{t}})
	}
	step.Headers = append(step.Headers, Header{"Authorization", value})
}

// origin takes the origin off the URL, if it is the same each time.
func (c *compiler) origin(step *Step, at place) {
	if len(step.URL.parts) == 0 || step.URL.parts[0].kind != literal {
		step.Dynamic = true
		return
	}
	first := step.URL.parts[0].text
	scheme, rest, ok := strings.Cut(first, "://")
	if ok = ok && slices.Contains(schemes, strings.ToLower(scheme)); ok && len(scheme) < 4 && step.Method != WebSocket {
		c.fail(at, "ws:// is for websocket", fmt.Errorf("%.80q: want http:// or https://", first))
		return
	}
	whole := len(step.URL.parts) == 1 || ok && strings.ContainsAny(rest, "/?")
	if !whole {
		step.Dynamic = ok
		if !step.Dynamic {
			c.fail(at, "", fmt.Errorf("%.80q: want http:// or https://", first))
		}
		return
	}
	o, target, err := SplitURL(first)
	if err != nil {
		c.fail(at, "", err)
		return
	}
	if c.s.HTTP.Version == "3" && !o.TLS && step.Method != WebSocket && step.Method != GRPC {
		c.fail(at, "", fmt.Errorf("%.80q: HTTP/3 needs https://", first))
		return
	}
	step.Origin = o
	step.Target = Template{parts: append([]part{{text: target}}, step.URL.parts[1:]...)}
}

// callPath is how the address of a method of gRPC ends, behind a host or what stands for one.
var callPath = regexp.MustCompile(`(?:://[^/]+|\})/([A-Za-z_][A-Za-z0-9_.]{0,254}/[A-Za-z_][A-Za-z0-9_]{0,254})$`)

// call finds out which method is called.
func (c *compiler) call(step *Step, at place, url string) {
	m := callPath.FindStringSubmatch(url)
	if m == nil {
		c.fail(at, `as grpc = "https://api.example.org/shop.v1.Orders/Get"`, fmt.Errorf("%.80q does not end with /package.Service/Method", url))
		return
	}
	step.Call = m[1]
}

// maxDepth bounds tables within tables of a body.
const maxDepth = 32

// jsonBody writes a value of the file as JSON, with the templates in its texts.
func (c *compiler) jsonBody(step *Step, at place, v any, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("is deeper than %d", maxDepth)
	}
	lit := func(s string) { step.Body.add(part{text: s}) }
	switch v := v.(type) {
	case string:
		lit(`"`)
		for _, p := range c.template(at, v, inJSON).parts {
			step.Body.add(p)
		}
		lit(`"`)
	case int64:
		lit(strconv.FormatInt(v, 10))
	case float64:
		lit(strconv.FormatFloat(v, 'g', -1, 64))
	case bool:
		lit(strconv.FormatBool(v))
	case []any:
		return c.jsonList(step, at, len(v), depth, func(i int) any { return v[i] })
	case []map[string]any:
		return c.jsonList(step, at, len(v), depth, func(i int) any { return v[i] })
	case map[string]any:
		lit("{")
		for i, k := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				lit(",")
			}
			lit(`"` + string(escaped([]byte(k), 0, inJSON)) + `":`)
			if err := c.jsonBody(step, at.key(k), v[k], depth+1); err != nil {
				return err
			}
		}
		lit("}")
	default:
		return fmt.Errorf("%s cannot be said in JSON: write a text", typeName(v))
	}
	return nil
}

func (c *compiler) jsonList(step *Step, at place, n, depth int, item func(int) any) error {
	step.Body.add(part{text: "["})
	for i := range n {
		if i > 0 {
			step.Body.add(part{text: ","})
		}
		if err := c.jsonBody(step, at.item(i), item(i), depth+1); err != nil {
			return err
		}
	}
	step.Body.add(part{text: "]"})
	return nil
}

// ValidHeaderName reports whether a field of a head may have a name.
func ValidHeaderName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return s != "" && len(s) <= 256
}

// uses reports whether a template of the step takes a column of a set.
func (s *Step) uses(set int) bool {
	all := []Template{s.URL, s.Target, s.Body}
	for _, h := range s.Headers {
		all = append(all, h.Value)
	}
	return slices.ContainsFunc(all, func(t Template) bool { return t.uses(set) })
}

func (t Template) uses(set int) bool {
	return slices.ContainsFunc(t.parts, func(p part) bool {
		return p.kind == column && p.a == set || slices.ContainsFunc(p.args, func(a Template) bool { return a.uses(set) })
	})
}
