package load

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/skein-project/skein/load/lines"
)

const (
	defaultGrace    = 30 * time.Second
	defaultMaxUsers = 1000
	maxGrace        = 10 * time.Minute
)

func newScenario(lines map[string]int) *Scenario {
	return &Scenario{flows: map[string][]rawStep{}, f: &faults{lines: lines}}
}

// Parse reads a scenario. Its error is of type Faults and names every fault.
func Parse(text string) (*Scenario, error) {
	if len(text) > MaxFile {
		return nil, Faults{{Msg: fmt.Sprintf("has %d bytes, at most %d are allowed", len(text), MaxFile)}}
	}
	var top map[string]any
	if _, err := toml.Decode(text, &top); err != nil {
		f := Fault{Msg: err.Error(), Hint: "the file must be TOML, https://toml.io"}
		if pe, ok := errors.AsType[toml.ParseError](err); ok {
			f.Line, f.Key, f.Msg = pe.Position.Line, pe.LastKey, fmt.Sprintf("%.256s", pe.Message)
		}
		return nil, Faults{f}
	}
	s := newScenario(lines.Of(text))
	s.top(newTable(s.f, "", top))
	return s, s.f.err()
}

func (s *Scenario) top(t *table) {
	s.Name = t.text("name")
	if s.Name == "" {
		s.Name = "load"
	}
	s.Warmup = t.duration("warmup", 0, 0, MaxTime)
	s.Grace = t.duration("grace", defaultGrace, 0, maxGrace)
	s.hosts(t)
	s.thresholds(t)
	s.Vars = t.textMap("vars", MaxVars)
	for _, d := range t.subs("data", 16) {
		s.data(d)
	}
	s.http(t)
	if g := t.sub("grpc"); g != nil {
		s.Descriptors = g.text("descriptors")
		g.end()
	}
	s.allFlows(t)
	for _, one := range t.subs("traffic", MaxTraffics) {
		s.traffic(one)
	}
	if len(s.Traffics) == 0 {
		t.fail("traffic", "add a table like [traffic.main] with flow, and users or rate", "there is none")
	}
	t.end()
}

// hosts is what is said of a run on hosts.
func (s *Scenario) hosts(t *table) {
	if v, ok := t.m["slices"].(string); ok && v == "auto" {
		t.take("slices")
	} else if ok {
		t.take("slices")
		t.fail("slices", "", "is %q, want \"auto\" or a number", v)
	} else {
		s.Slices, _ = t.count("slices", 1, MaxSlices)
	}
	switch s.OnLoss = t.text("on_loss"); s.OnLoss {
	case "", "continue", "abort", "redistribute":
	default:
		t.fail("on_loss", "want continue, abort or redistribute", "%q is not known", s.OnLoss)
	}
}

func (s *Scenario) thresholds(t *table) {
	v, ok := t.take("thresholds")
	if !ok {
		return
	}
	list, ok := v.([]any)
	if tables, are := v.([]map[string]any); are {
		ok = true
		for _, one := range tables {
			list = append(list, one)
		}
	}
	if !ok {
		t.wrong("thresholds", "a list", v)
		return
	}
	if len(list) > MaxThreshold {
		t.fail("thresholds", "", "has %d entries, at most %d are allowed", len(list), MaxThreshold)
		return
	}
	for i, one := range list {
		at := t.at.key("thresholds").item(i)
		switch v := one.(type) {
		case string:
			s.Thresholds = append(s.Thresholds, Threshold{When: v, at: at})
		case map[string]any:
			x := newTable(s.f, at, v)
			th := Threshold{
				When: x.text("when"), Window: x.duration("window", 0, time.Second, time.Hour), Hold: x.duration("hold", 0, 0, time.Hour),
				Delay: x.duration("delay", 0, 0, MaxTime), Abort: x.flag("abort"), at: at,
			}
			x.end()
			if th.When == "" {
				x.fail("when", `as when = "p(95)<500"`, "is missing")
			}
			s.Thresholds = append(s.Thresholds, th)
		default:
			s.f.add(at, "", "is %s, want a text or a table", typeName(one))
		}
	}
}

// Refuse notes a fault of a threshold that only its reader finds, and returns all
// faults so far.
func (s *Scenario) Refuse(t Threshold, hint, msg string) error {
	s.f.add(t.at, hint, "%s", msg)
	return s.f.err()
}

func (s *Scenario) data(t *table) {
	d := Data{Name: t.name(), File: t.text("file"), at: t.at}
	d.Pick = Pick(t.word("pick", string(PickCycle), string(PickRandom), string(PickUnique), string(PickUser)))
	if d.File == "" {
		t.fail("file", "a file of type csv, json or jsonl, beside the scenario", "is missing")
	}
	t.end()
	s.Data = append(s.Data, d)
}

func (s *Scenario) http(top *table) {
	t := top.sub("http")
	if t == nil {
		t = newTable(s.f, "http", nil)
	}
	s.HTTP = HTTP{
		Version:     t.word("version", "auto", "1.1", "2", "h2c", "3"),
		DNS:         t.word("dns", "ttl", "fixed", "round-robin"),
		Connections: t.word("connections", "user", "shared", "request"),
		Cookies:     t.word("cookies", "user", "iteration", "off"),
		Timeout:     t.duration("timeout", DefaultTimeout, time.Millisecond, 10*time.Minute),
		Headers:     t.textMap("headers", MaxHeaders),
	}
	if x := t.sub("tls"); x != nil {
		s.HTTP.TLS = TLSOptions{
			CA: x.text("ca"), Cert: x.text("cert"), Key: x.text("key"), ServerName: x.text("server_name"),
			Min: x.word("min", "", "1.2", "1.3"), Insecure: x.flag("insecure"),
		}
		if (s.HTTP.TLS.Cert == "") != (s.HTTP.TLS.Key == "") {
			x.fail("cert", "", "cert and key belong together")
		}
		x.end()
	}
	t.end()
}

func (s *Scenario) traffic(t *table) {
	tr := Traffic{Name: t.name(), Flow: t.text("flow"), at: t.at}
	length := t.duration("for", 0, time.Millisecond, MaxTime)
	_, open := t.m["rate"]
	_, closed := t.m["users"]
	tr.Open = open
	switch {
	case open && closed:
		t.fail("users", "an open traffic has rate and max_users, a closed one users", "stands beside rate")
	case open:
		tr.Rate = s.stages(t, "rate", MaxRate, length)
		tr.Poisson = t.word("arrivals", "even", "poisson") == "poisson"
	case closed:
		tr.Users = s.stages(t, "users", MaxUsers, length)
		tr.Pace = t.duration("pace", 0, time.Millisecond, time.Hour)
	default:
		t.fail("users", `as users = 50 with for = "1m", or rate = 100 with for = "1m"`, "there is neither users nor rate")
	}
	if n, ok := t.count("max_users", 1, MaxUsers); ok {
		tr.MaxUsers = n
		if closed {
			t.fail("max_users", "users says how many there are", "only an open traffic has it")
		}
	}
	tr.Start = t.duration("start", 0, 0, MaxTime)
	tr.ThinkMin, tr.ThinkMax = s.think(t)
	if tr.Flow == "" {
		t.fail("flow", "the name of a flow: [[flow.NAME]]", "is missing")
	} else if _, ok := s.flows[tr.Flow]; !ok {
		hint := ""
		if n := near(tr.Flow, slices.Sorted(maps.Keys(s.flows))); n != "" {
			hint = fmt.Sprintf("did you mean %s?", n)
		}
		t.fail("flow", hint, "there is no flow %q", tr.Flow)
	}
	t.end()
	s.checkTraffic(&tr)
	s.Traffics = append(s.Traffics, tr)
}

// checkTraffic checks what its stages come to.
func (s *Scenario) checkTraffic(t *Traffic) {
	if t.Open && t.MaxUsers == 0 {
		t.MaxUsers = defaultMaxUsers
	}
	most := 0.0
	for _, st := range append(t.Users, t.Rate...) {
		most = max(most, st.To)
	}
	switch d := t.Length() - t.Start; {
	case len(t.Users)+len(t.Rate) == 0:
	case d <= 0:
		s.f.add(t.at, `as users = 50 with for = "1m"`, "lasts no time")
	case d+t.Start > MaxTime:
		s.f.add(t.at, "", "lasts %s, at most %s are allowed", d+t.Start, MaxTime)
	case most == 0:
		s.f.add(t.at, "", "is 0 all the time")
	}
}

// stages reads one value that holds for length, or a list of stages.
func (s *Scenario) stages(t *table, key string, most float64, length time.Duration) []Stage {
	at := t.at.key(key)
	switch v := t.m[key].(type) {
	case int64, float64:
		x, ok := t.number(key, 0, most)
		if length == 0 {
			t.fail(key, `as for = "1m"`, "needs for, which says how long")
		}
		if ok && x == 0 {
			t.fail(key, "", "is 0")
		}
		return []Stage{{To: x}, {To: x, Over: length}}
	case []any:
		t.take(key)
		if length > 0 {
			t.fail("for", "stages say how long they last: over, hold", "stands beside stages")
		}
		var out []Stage
		level := 0.0
		for i, one := range v {
			m, ok := one.(map[string]any)
			if !ok {
				s.f.add(at.item(i), `as { to = 200, over = "1m" } or { hold = "5m" }`, "is %s, want a table", typeName(one))
				continue
			}
			x := newTable(s.f, at.item(i), m)
			to, ramps := x.number("to", 0, most)
			over := x.duration("over", 0, 0, MaxTime)
			hold := x.duration("hold", 0, time.Millisecond, MaxTime)
			x.end()
			switch {
			case ramps:
				out = append(out, Stage{To: to, Over: over})
				level = to
			case over > 0:
				s.f.add(at.item(i), "over is the time in which to is reached", "has over, and no to")
			case hold == 0:
				s.f.add(at.item(i), `as { to = 200, over = "1m" } or { hold = "5m" }`, "says neither to nor hold")
			}
			if hold > 0 {
				out = append(out, Stage{To: level, Over: hold})
			}
		}
		if len(out) > MaxStages {
			t.fail(key, "", "has %d stages, at most %d are allowed", len(out), MaxStages)
			return out[:MaxStages]
		}
		return out
	default:
		t.take(key)
		t.wrong(key, "a number or a list of stages", v)
	}
	return nil
}

// think reads a time, or two as "1s..3s".
func (s *Scenario) think(t *table) (low, high time.Duration) {
	text := t.text("think")
	if text == "" {
		return 0, 0
	}
	a, b, two := strings.Cut(text, "..")
	low, err := parseDuration(a)
	high = low
	if two && err == nil {
		high, err = parseDuration(b)
	}
	if err != nil || low < 0 || high < low || high > time.Hour {
		t.fail("think", `as think = "2s" or think = "1s..3s", at most an hour`, "%q is no time to think", text)
		return 0, 0
	}
	return low, high
}

// methods are keys of a step that name the address as well.
var methods = []string{"get", "post", "put", "patch", "delete", "head", "options", "websocket", "grpc"}

func (s *Scenario) allFlows(top *table) {
	all := top.sub("flow")
	if all == nil {
		top.fail("flow", "add [[flow.NAME]] for each step", "there is none")
		return
	}
	steps, checks := 0, 0
	var over [2]place // the first that are too many
	for _, name := range slices.Sorted(maps.Keys(all.m)) {
		v, _ := all.take(name)
		if err := checkName(name); err != nil {
			all.fail(name, "", "%s", err)
		}
		list, ok := v.([]map[string]any)
		if !ok {
			all.fail(name, fmt.Sprintf("write [[flow.%s]] above each step", name), "is %s, want a list of tables", typeName(v))
			continue
		}
		s.flows[name] = []rawStep{}
		seen := map[string]bool{}
		for i, m := range list {
			st := s.step(newTable(s.f, all.at.key(name).item(i), m), i)
			if seen[st.name] {
				s.f.add(st.at.key("name"), "", "the flow has two steps %q", st.name)
			}
			seen[st.name] = true
			if steps++; steps == MaxSteps+1 {
				over[0] = st.at
			}
			before := checks
			if checks += len(st.checks); checks > MaxChecks && before <= MaxChecks {
				over[1] = st.at.key("check")
			}
			s.flows[name] = append(s.flows[name], st)
		}
	}
	steps += s.tokens()
	if steps > MaxSteps {
		s.f.add(over[0], "", "the file has %d steps, at most %d are allowed", steps, MaxSteps)
	}
	if checks > MaxChecks {
		s.f.add(over[1], "", "the file has %d checks, at most %d are allowed", checks, MaxChecks)
	}
}

func (s *Scenario) step(t *table, i int) rawStep {
	st := rawStep{at: t.at, name: t.text("name")}
	if st.name == "" {
		st.name = fmt.Sprintf("step%d", i+1)
	} else if err := checkName(st.name); err != nil {
		t.fail("name", "", "%s", err)
	}
	for _, m := range methods {
		if url := t.text(m); url != "" {
			if st.method != "" {
				t.fail(m, "a step sends one request", "stands beside %s", strings.ToLower(st.method))
			}
			st.method, st.url = strings.ToUpper(m), url
		}
	}
	if st.method == "" {
		t.f.add(t.at, `as get = "https://example.org/"`, "sends nothing: there is no get, post, put, patch, delete, head, options, websocket or grpc")
	}
	if n, said := t.count("messages", 0, MaxMessages); st.method == WebSocket {
		if st.messages = 1; said {
			st.messages = n
		}
	} else if said {
		t.fail("messages", "", "is for websocket")
	}
	st.headers = t.textMap("headers", MaxHeaders)
	st.body = t.text("body")
	st.json, st.hasJSON = t.take("json")
	st.form = t.textMap("form", MaxVars)
	bodies := 0
	for _, has := range []bool{st.body != "", st.hasJSON, st.form != nil} {
		if has {
			bodies++
		}
	}
	if (st.method == WebSocket || st.method == GRPC) && st.form != nil {
		t.f.add(t.at, "", "has a form, which is for HTTP: a message is body or json")
	}
	if bodies > 1 {
		t.f.add(t.at, "", "has several of body, json and form")
	}
	if a := t.sub("auth"); a != nil {
		st.bearer = a.text("bearer")
		if b := a.sub("basic"); b != nil {
			st.basicUser, st.basicPassword = b.text("user"), b.text("password")
			b.end()
		}
		if o := a.sub("oauth2"); o != nil {
			st.oauth = readOAuth(o)
		}
		kinds := 0
		for _, has := range []bool{st.bearer != "", st.basicUser != "", st.oauth != oauth{}} {
			if has {
				kinds++
			}
		}
		if kinds != 1 {
			a.f.add(a.at, `as auth = { bearer = "${token}" } or auth = { basic = { user = "u", password = "p" } }`, "want one of bearer, basic and oauth2")
		}
		a.end()
	}
	if h := t.sub("hook"); h != nil {
		st.hook = Hook{File: h.text("wasm"), Call: h.text("call")}
		if st.hook.File == "" || st.hook.Call == "" || st.hook.Call == "alloc" || st.method == WebSocket || st.method == GRPC {
			h.f.add(h.at, `as hook = { wasm = "sign.wasm", call = "sign" }`, "want wasm and call, of a step over HTTP")
		}
		h.end()
	}
	st.checks = t.texts("check", MaxChecks)
	for _, x := range t.subs("extract", MaxVars) {
		e := rawExtract{at: x.at, name: x.name(), json: x.text("json"), header: x.text("header"), regex: x.text("regex")}
		n := 0
		for _, text := range []string{e.json, e.header, e.regex} {
			if text != "" {
				n++
			}
		}
		if n != 1 {
			x.f.add(x.at, `as extract.token = { json = "$.token" }`, "want one of json, header and regex")
		}
		x.end()
		st.extract = append(st.extract, e)
	}
	_, st.hasAfter = t.m["after"]
	st.after = t.texts("after", MaxSteps)
	if st.redirects, _ = t.count("redirects", 0, MaxRedirects); st.redirects > 0 && st.method == GRPC {
		t.fail("redirects", "", "is for HTTP, a call of gRPC has none")
	}
	st.timeout = t.duration("timeout", s.HTTP.Timeout, time.Millisecond, 10*time.Minute)
	st.think[0], st.think[1] = s.think(t)
	t.end()
	if st.method == GRPC && s.Descriptors == "" {
		t.f.add(t.at.key("grpc"), `as [grpc] with descriptors = "api.binpb", which protoc --include_imports --descriptor_set_out=api.binpb or buf build -o api.binpb writes`, "needs descriptors of the methods")
	}
	return st
}
