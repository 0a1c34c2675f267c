package load

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

const good = `
name = "shop"
slices = 3
on_loss = "redistribute"
thresholds = ["p(95)<500", { when = "rate(failed)<0.05", window = "10s", hold = "5s", delay = "30s", abort = true }]
vars = { base = "https://shop.example.org", n = 3 }
data.users = { file = "users.csv", pick = "unique" }
warmup = "30s"
[http]
version = "auto"
dns = "ttl"
connections = "user"
headers = { X-Run = "${n}" }
tls = { insecure = true }
[traffic.browse]
flow = "browse"
users = [{ to = 200, over = "1m" }, { hold = "5m" }]
think = "1s..3s"
[traffic.buy]
flow = "buy"
rate = [{ to = 500, over = "2m" }, { hold = "10m" }]
arrivals = "poisson"
max_users = 2000
[[flow.browse]]
get = "${base}/"
[[flow.buy]]
name = "login"
post = "${base}/login"
json = { user = "${users.name}", deep = [1, 2.5, true, { a = "x\"y" }], password = "${secret.shop}" }
extract.token = { json = "$.token" }
check = ["status == 200", "json('$.ok') == true"]
[[flow.buy]]
name = "pay"
after = ["login"]
get = "${base}/pay?n=${uuid()}&q=${users.name}"
auth = { bearer = "${token}" }
[[flow.buy]]
name = "form"
after = ["pay"]
post = "http://[::1]:8080/x y"
form = { a = "${users.name}", "b c" = "1&2" }
auth = { basic = { user = "u", password = "${env.PASS}" } }
`

func inputs() Inputs {
	return Inputs{
		Rows:   map[string]*Rows{"users": {Columns: []string{"name", "age"}, Rows: [][]string{{`a"b&c d`, "3"}}}},
		Env:    func(n string) (string, bool) { return "pass-" + n, n == "PASS" },
		Secret: func(n string) (string, bool) { return "hidden", n == "shop" },
	}
}

func TestScenario(t *testing.T) {
	s, err := Parse(good)
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.Compile(inputs())
	if err != nil {
		t.Fatal(err)
	}
	if s.Slices != 3 || s.OnLoss != "redistribute" {
		t.Errorf("slices: %d, %q", s.Slices, s.OnLoss)
	}
	if len(p.Thresholds) != 2 || !p.Thresholds[1].Abort || p.Thresholds[1].Delay != 30*time.Second {
		t.Errorf("thresholds: %+v", p.Thresholds)
	}
	browse, buy := p.Traffics[0], p.Traffics[1]
	if browse.Length() != 6*time.Minute || browse.ThinkMax != 3*time.Second || buy.MaxUsers != 2000 || !buy.Poisson || !buy.Open || buy.Length() != 12*time.Minute {
		t.Errorf("traffic: %+v %+v", browse, buy)
	}
	login, pay, form := p.Flows["buy"].Steps[0], p.Flows["buy"].Steps[1], p.Flows["buy"].Steps[2]
	in := &Input{Slots: make([][]byte, 1), Rows: p.Sets[0].Rows.Rows, Rand: func() uint64 { return 1 << 63 }}
	fill := func(t2 Template) string {
		t.Helper()
		b, err := t2.Append(nil, in)
		if err != nil {
			t.Error(err)
		}
		return string(b)
	}
	var body map[string]any
	if text := fill(login.Body); json.Unmarshal([]byte(text), &body) != nil || body["user"] != `a"b&c d` || body["password"] != "hidden" || fmt.Sprint(body["deep"]) != `[1 2.5 true map[a:x"y]]` {
		t.Errorf("body: %s", text)
	}
	if got := fill(pay.Target); got != "/pay?n=80000000-0000-4000-8000-000000000000&q=a%22b&c%20d" {
		t.Error(got)
	}
	if pay.Origin.String() != "https://shop.example.org" || pay.Origin.Port != 443 || form.Origin.Name != "::1" || form.Origin.Port != 8080 || fill(form.Target) != "/x%20y" {
		t.Errorf("%+v %+v %s", pay.Origin, form.Origin, fill(form.Target))
	}
	if _, err := pay.Headers[1].Value.Append(nil, in); !errors.Is(err, ErrUnset) {
		t.Errorf("a value that is not there: %v", err)
	}
	in.Slots[0] = []byte("tok")
	if got := pay.Headers[1].Name + ": " + fill(pay.Headers[1].Value) + " " + fill(pay.Headers[0].Value); got != "Authorization: Bearer tok 3" {
		t.Error(got)
	}
	if got := fill(form.Body); got != "a=a%22b%26c%20d&b%20c=1%262" {
		t.Error(got)
	}
	if got := fill(form.Headers[2].Value); got != "Basic dTpwYXNzLVBBU1M=" {
		t.Error(got)
	}
	if len(p.Secrets) < 1 || p.Secrets[0] != "hidden" {
		t.Errorf("secrets: %q", p.Secrets)
	}
	if !login.OfStatus || !login.NeedsBody || pay.NeedsBody || p.Flows["browse"].Graph || !p.Flows["buy"].Graph {
		t.Error("what steps need")
	}
}

// Everything that is wrong is told with its line.
func TestRefusals(t *testing.T) {
	step := "\n[[flow.f]]\nget = \"http://x/\"\n"
	traffic := "traffic.a = { flow = \"f\", users = 1, for = \"1s\" }\n"
	for _, c := range []struct {
		text string
		line int
		want string
	}{
		{traffic + step + "gett = 5\n", 5, `flow.f[0].gett: unknown key`},
		{"thresold = []\n" + traffic + step, 1, "unknown key"},
		{"slices = \"all\"\n" + traffic + step, 1, `want "auto" or a number`},
		{"slices = 0\n" + traffic + step, 1, "out of range"},
		{"on_loss = \"retry\"\n" + traffic + step, 1, `"retry" is not known`},
		{traffic + "\n[http]\nversion = \"4\"\n" + step, 4, `"4" is not known`},
		{traffic + "\n[http]\nversion = \"3\"\n" + step, 7, `"http://x/": HTTP/3 needs https://`},
		{"traffic.a = { flow = \"g\", users = 1, for = \"1s\" }" + step, 1, `no flow "g"`},
		{"traffic.a = { flow = \"f\", users = 1 }" + step, 1, "needs for"},
		{"traffic.a = { flow = \"f\", rate = 0, for = \"1s\" }" + step, 1, "is 0"},
		{"traffic.a = { flow = \"f\", rate = nan, for = \"1s\" }" + step, 1, "out of range"},
		{"traffic.a = { flow = \"f\", rate = 5, users = 5, for = \"1s\" }" + step, 1, "beside rate"},
		{"traffic.a = { flow = \"f\", users = 1, for = \"25h\" }" + step, 1, "out of range"},
		{"traffic.a = { flow = \"f\", users = [{ to = 5, over = \"20h\" }, { hold = \"5h\" }] }" + step, 1, "at most 24h"},
		{"[traffic.a]\nflow = \"f\"\nrate = [\n  { to = 5, over = \"1s\" },\n  { over = \"1s\" },\n]\n" + step, 5, "no to"},
		{traffic + step + "[[flow.f]]\nname = \"b\"\nget = \"http://x/${nope}\"\n", 7, `no variable "nope"`},
		{"vars = { base = \"http://x\" }\n" + traffic + "[[flow.f]]\nget = \"${bass}/\"\n", 4, "did you mean base"},
		{"vars = { a = \"${b}\", b = \"${a}\" }\n" + traffic + "[[flow.f]]\nget = \"http://x/${a}\"\n", 4, "a -> b -> a"},
		{traffic + "[[flow.f]]\nget = \"http://x/${tok}\"\n[[flow.f]]\nget = \"http://x/\"\nextract.tok = { header = \"X\" }\n", 3, "does not come before"},
		{traffic + "[[flow.f]]\nname = \"a\"\nget = \"http://x/\"\nafter = [\"b\"]\n[[flow.f]]\nname = \"b\"\nget = \"http://x/\"\nafter = [\"a\"]\n", 5, "after itself"},
		{traffic + "[[flow.f]]\nname = \"a\"\nget = \"http://x/\"\nafter = [\"z\"]\n", 5, `no step "z"`},
		{traffic + "[[flow.f]]\nname = \"a\"\nget = \"http://x/\"\n[[flow.f]]\nname = \"a\"\nget = \"http://x/\"\n", 6, "two steps"},
		{"data.u = { file = \"u.csv\" }\n" + traffic + "[[flow.f]]\nget = \"http://x/${u.nope}\"\n", 4, `no column "nope", it has name, age`},
		{traffic + "[[flow.f]]\nget = \"ftp://x/\"\n", 3, "want http"},
		{traffic + step + "auth = { oauth2 = { url = \"http://x/\", client_id = \"a\" } }\n", 5, "want url, client_id and client_secret"},
		{traffic + step + "auth = { bearer = \"x\", oauth2 = { url = \"http://x/\", client_id = \"a\", client_secret = \"b\" } }\n", 5, "want one of bearer, basic and oauth2"},
		{traffic + step + "auth = { oauth2 = { url = \"ftp://x/\", client_id = \"a\", client_secret = \"b\" } }\n", 5, "want http"},
		{"vars = { oauth2 = \"5\" }\n" + traffic + step + "auth = { oauth2 = { url = \"http://x/\", client_id = \"a\", client_secret = \"b\" } }\n", 6, "vars has \"oauth2\" as well"},
		{traffic + "[[flow.f]]\nget = \"http://u:p@x/\"\n", 3, "belong to auth"},
		{traffic + "[[flow.f]]\nget = \"http://x:99999/\"\n", 3, "no port"},
		{traffic + "[[flow.f]]\nget = \"http://x/\"\npost = \"http://x/\"\n", 4, "stands beside get"},
		{traffic + "[[flow.f]]\nname = \"a\"\n", 2, "sends nothing"},
		{traffic + step + "headers = { \"X\\r\\nY\" = \"1\" }\n", 5, "no header"},
		{traffic + step + "headers = { X = \"a\\r\\nb\" }\n", 5, "end of line"},
		{traffic + step + "headers = { Content-Length = \"5\" }\n", 5, "no header"},
		{traffic + step + "check = [\"status == 200\",\n  \"status = 200\"]\n", 6, "operator"},
		{traffic + step + "check = [\"stat == 200\"]\n", 5, `no "stat"`},
		{traffic + step + "extract.a = { json = \"$..a\" }\n", 5, "no name"},
		{traffic + step + "extract.a = { regex = \"(\" }\n", 5, "missing closing"},
		{traffic + step + "extract.a = { json = \"$\", header = \"X\" }\n", 5, "want one of"},
		{traffic + "[[flow.f]]\nget = \"http://x/${uuidd()}\"\n", 3, "did you mean uuid()"},
		{traffic + "[[flow.f]]\nget = \"http://x/${random(5, 1)}\"\n", 3, "more than"},
		{traffic + "[[flow.f]]\nget = \"http://x/${env.NOPE}\"\n", 3, `no variable "NOPE"`},
		{traffic + "[[flow.f]]\nget = \"http://x/${secret.nope}\"\n", 3, "no secret"},
		{traffic + "[[flow.f]]\nget = \"http://x/${uuid(\"\n", 3, "want"},
		{traffic + step + "timeout = \"0s\"\n", 5, "out of range"},
		{traffic + step + "hook = { wasm = \"a.wasm\" }\n", 5, "want wasm and call"},
		{traffic + "[[flow.f]]\nwebsocket = \"ws://x/\"\nhook = { wasm = \"a.wasm\", call = \"f\" }\n", 4, "over HTTP"},
		{traffic + "[[flow.f]]\nwebsocket = \"ws://x/\"\nform = { a = \"b\" }\n", 2, "a message is body or json"},
		{traffic + "[[flow.f]]\nget = \"ws://x/\"\n", 3, "want http"},
		{traffic + "[[flow.f]]\ngrpc = \"https://x/a.B/C\"\n", 3, "needs descriptors"},
		{"[grpc]\ndescriptors = \"a.binpb\"\n[traffic.a]\nflow = \"f\"\nusers = 1\nfor = \"1s\"\n[[flow.f]]\ngrpc = \"https://x/a\"\n", 8, "does not end with /package.Service/Method"},
		{traffic + "[[flow.f]]\ngrpc = \"https://x/a.B/C\"\nform = { a = \"b\" }\n", 2, "a message is body or json"},
		{traffic + "grpc = { descriptors = \"a.binpb\" }\n[[flow.f]]\ngrpc = \"https://x/a.B/C\"\nredirects = 1\n", 5, "is for HTTP, a call of gRPC has none"},
		{traffic + step + "messages = 2\n", 5, "is for websocket"},
		{step, 0, "there is none"},
		{"traffic = 5\n" + step, 1, "want a table"},
		{"flow = [", 1, ""},
		{"warmup = 5\n" + traffic + step, 1, `want a time as "30s"`},
		{strings.Repeat("#", MaxFile+1), 0, "at most"},
		{traffic + strings.Repeat(step, MaxSteps+1), 195, "65 steps, at most 64"},
		{traffic + strings.Repeat(step+"check = ["+strings.Repeat("\"status == 200\", ", 100)+"]\n", 3), 13, "300 checks, at most 256"},
		{traffic + step + "check = [" + strings.Repeat("\"status == 200\", ", MaxChecks+1) + "]\n", 5, "at most 256"},
		{"traffic.a = { flow = \"f\", rate = 1e7, for = \"1s\" }" + step, 1, "out of range"},
		{"traffic.a = { flow = \"f\", users = 100001, for = \"1s\" }" + step, 1, "out of range"},
	} {
		in := inputs()
		in.Rows["u"] = in.Rows["users"]
		s, err := Parse(c.text)
		if err == nil {
			_, err = s.Compile(in)
		}
		var faults Faults
		if !errors.As(err, &faults) {
			t.Errorf("%.200s\ngives %v, want %q", c.text, err, c.want)
			continue
		}
		if f := faults[0]; f.Line != c.line || !strings.Contains(f.Error(), c.want) {
			t.Errorf("%.200s\ngives %q, want line %d: %q", c.text, f.Error(), c.line, c.want)
		}
	}
}

// Tokens of OAuth are got once each, before all else, whoever needs them.
func TestOAuth(t *testing.T) {
	s, err := Parse(`
traffic.main = { flow = "f", users = 1, for = "1s" }
[[flow.setup]]
name = "own"
get = "http://x/own"
auth = { oauth2 = { url = "https://b/token", client_id = "b", client_secret = "${secret.shop}" } }
[[flow.f]]
get = "http://x/1"
auth.oauth2 = { url = "https://a/token", client_id = "a", client_secret = "${secret.shop}", scope = "read write" }
[[flow.f]]
get = "http://x/2"
auth.oauth2 = { url = "https://b/token", client_id = "b", client_secret = "${secret.shop}" }
`)
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.Compile(inputs())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, st := range p.Setup.Steps {
		got = append(got, st.Name+" "+st.Method+" "+st.Origin.String())
	}
	if want := "[oauth2 POST https://a oauth2_2 POST https://b own GET http://x]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
	in := &Input{Slots: [][]byte{[]byte("one"), []byte("two")}, Rand: func() uint64 { return 0 }}
	headers := func(st *Step) (out string) {
		for _, h := range st.Headers {
			v, err := h.Value.Append(nil, in)
			if err != nil {
				t.Error(err)
			}
			out += h.Name + ": " + string(v) + "\n"
		}
		return out
	}
	body, err := p.Setup.Steps[0].Body.Append(nil, in)
	if err != nil || string(body) != "grant_type=client_credentials&scope=read%20write" || !strings.Contains(headers(p.Setup.Steps[0]), "Authorization: Basic YTpoaWRkZW4=\n") {
		t.Errorf("%s %s %v", body, headers(p.Setup.Steps[0]), err)
	}
	if a, b, own := headers(p.Flows["f"].Steps[0]), headers(p.Flows["f"].Steps[1]), headers(p.Setup.Steps[2]); a != "Authorization: Bearer one\n" || b != "Authorization: Bearer two\n" || own != b {
		t.Errorf("%q %q %q", a, b, own)
	}
}

func TestFromURL(t *testing.T) {
	s, err := FromURL("http://127.0.0.1:8080/x?y=1", 100, 5, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.Compile(Inputs{})
	if err != nil || !p.Traffics[0].Open || p.Traffics[0].MaxUsers != 5 || p.Steps[0].Origin.Port != 8080 {
		t.Errorf("%+v %v", p, err)
	}
	if _, err := FromURL("http://x/", 0, 0, time.Minute); err == nil {
		t.Error("no users, and no fault")
	}
}

func TestChecks(t *testing.T) {
	a := &Answer{
		Status: 201, Body: []byte(`{"ok":true,"n":5,"s":"a\"b","l":[1,{"x y":"z"}],"null":null}`), Size: 60, Latency: 120 * time.Millisecond,
		Header: func(n string) string { return map[string]string{"X": "yes"}[n] },
	}
	for text, want := range map[string]bool{
		"status == 201": true, "status != 201": false, "status < 300": true, "status >= 202": false, "size > 50": true,
		`latency < "500ms"`: true, "latency < 100": false, `body contains "ok"`: true, `body matches "n.:\\d"`: true, `body == 'x'`: false,
		`header('X') == 'yes'`: true, `header("Y") exists`: false, `header("X") exists`: true, `header("X") contains "es"`: true,
		`json('$.ok') == true`: true, `json('$.n') > 4`: true, `json('$.n') == 5`: true, `json('$.s') == 'a"b'`: true,
		`json("$.l[1]['x y']") == "z"`: true, `json('$.nope') exists`: false, `json('$.l[2]') exists`: false, `json('$.null') == null`: true,
		`json('$.nope') != 5`: false, `status matches "^2"`: true,
	} {
		c, err := ParseCheck(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := c.Holds(a); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
	for _, text := range []string{"", "status", "status ==", "json == 5", "json('x') == 5", "status exists", `body matches "("`, "status == x", "status == 200 or", `body == "x`} {
		if _, err := ParseCheck(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
	c, _ := ParseCheck(`json('$.l[1]') exists`)
	if n := testing.AllocsPerRun(100, func() { c.Holds(a) }); n != 0 {
		t.Errorf("a check allocates %g times", n)
	}
}

// No form of a secret that a template writes is seen.
func TestRedact(t *testing.T) {
	secrets := []string{"abc", "pass \"word\" #1", "first line\nthe second line\n"}
	for text, want := range map[string]string{
		"abc stays":                            "abc stays",
		`pass "word" #1`:                       "[redacted]",
		`{"p": "pass \"word\" #1"}`:            `{"p": "[redacted]"}`,
		"GET /?a=pass%20%22word%22%20%231&b=1": "GET /?a=[redacted]&b=1",
		"p=pass%20%22word%22%20%231&q":         "p=[redacted]&q",
		"> first line\n> the second line\n":    "> [redacted]\n> [redacted]\n",
	} {
		if got := Redact(text, secrets); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

func TestRows(t *testing.T) {
	for file, text := range map[string]string{
		"a.csv": "b,a\n\"1,2\",x\n", "a.json": `[{"a":"x","b":"1,2"}]`, "a.jsonl": "{\"a\":\"x\",\"b\":\"1,2\"}\n",
	} {
		r, err := ParseRows(file, []byte(text))
		if err != nil || len(r.Rows) != 1 || len(r.Columns) != 2 || strings.Join(r.Rows[0], "|") == "" {
			t.Errorf("%s: %+v %v", file, r, err)
		}
	}
	for file, x := range map[string]struct{ text, want string }{
		"empty.csv": {"", "is empty"}, "names.csv": {"a,b\n", "has no rows"}, "short.csv": {"a,b\n1,2\n3\n", "line 3"}, "utf.csv": {"a\nx\n\xff\n", "line 3 is not UTF-8"},
		"utf.jsonl": {"{\"a\":\"\xff\"}\n", "line 1 is not UTF-8"}, "a.json": {"{}", "want a list"}, "b.json": {`[{"a":1},{"b":2}]`, `row 2 lacks "a"`},
		"c.jsonl": {"{\"a\":1}\n{", "row 2"}, "a.txt": {"x", "want a file named"},
	} {
		if r, err := ParseRows(file, []byte(x.text)); err == nil || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %+v, %v, want %q", file, r, err, x.want)
		}
	}
}

// FuzzParse: whatever a file says, there is a plan or a fault, and no panic.
func FuzzParse(f *testing.F) {
	f.Add(good)
	f.Add("[[flow.f]]\nget='''\n${x'''\n\"a\".'b'=[[1],{c={}}]")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			var faults Faults
			if !errors.As(err, &faults) || len(faults) == 0 {
				t.Fatal(err)
			}
			return
		}
		p, err := s.Compile(inputs())
		if err != nil {
			return
		}
		in := &Input{Slots: make([][]byte, len(p.Slots)), Rows: make([][]string, len(p.Sets)), Rand: func() uint64 { return 5 }, Now: func() time.Time { return time.Time{} }}
		for i := range in.Rows {
			in.Rows[i] = p.Sets[i].Rows.Rows[0]
		}
		for _, st := range p.Steps {
			target, _ := st.Target.Append(nil, in)
			if bytes.ContainsAny(target, " \r\n") {
				t.Fatalf("target %q", target)
			}
		}
	})
}

// FuzzPath: a path finds in a JSON text what encoding/json has there.
func FuzzPath(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b":"c\"d"}],"e":null}`), "a", 1)
	f.Add([]byte(`{"a\u0062":{"x":[[]]}}`), "ab", 0)
	f.Fuzz(func(t *testing.T, text []byte, name string, index int) {
		p := Path{steps: []pathStep{{name: name, index: -1}}}
		raw := p.Find(text)
		var m map[string]json.RawMessage
		if !json.Valid(text) || json.Unmarshal(text, &m) != nil || bytes.Count(text, []byte(`"`)) > 40 {
			return
		}
		if strings.Count(string(text), name) > 1 { // names may come twice: the last one counts there, the first one here
			return
		}
		want, ok := m[name]
		if ok != (raw != nil) || ok && !bytes.Equal(bytes.TrimSpace(want), raw) {
			t.Fatalf("%q in %s is %q, want %q", name, text, raw, want)
		}
	})
}
