package convert

import (
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/load"
)

// compiled is a scenario that can be run.
func compiled(t *testing.T, list []Request) (*load.Plan, string, []string) {
	t.Helper()
	text, notes, err := Write("x", list)
	if err != nil {
		t.Fatal(err)
	}
	s, err := load.Parse(text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	p, err := s.Compile(load.Inputs{Secret: func(string) (string, bool) { return "s3cret", true }})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return p, text, notes
}

func TestCurl(t *testing.T) {
	for line, want := range map[string]Request{
		`curl http://x.example/a`:                                              {Method: "GET", URL: "http://x.example/a"},
		`curl --max-time=5 http://x.example/a`:                                 {Method: "GET", URL: "http://x.example/a"},
		`curl 'https://x.example/a?b=c' -H 'Accept: a/b' --compressed`:         {Method: "GET", URL: "https://x.example/a?b=c"},
		"curl -X PUT \\\n --url http://x.example/ -d 'a=1' -d b=2":             {Method: "PUT", URL: "http://x.example/", Body: "a=1&b=2"},
		`curl x.example -d '{"a":"${b}"}' -H 'content-type: application/json'`: {Method: "POST", URL: "http://x.example", Body: `{"a":"${b}"}`},
		`curl --json '{"n":1}' -sS -o /dev/null http://x.example`:              {Method: "POST", URL: "http://x.example", Body: `{"n":1}`},
		`curl -G http://x.example/s -d q=1 --data-urlencode 'r=a b'`:           {Method: "GET", URL: "http://x.example/s?q=1&r=a+b"},
		`curl $'http://x.example/\u0041\n' -I`:                                 {Method: "HEAD", URL: "http://x.example/A\n"},
		`curl -uann:pw -HX:y "http://x.example/\"q"`:                           {Method: "GET", URL: `http://x.example/"q`, User: "ann:pw"},
	} {
		got, err := Curl(line)
		if err != nil || got.Method != want.Method || got.URL != want.URL || got.Body != want.Body || got.User != want.User {
			t.Errorf("%s: %+v, %v", line, got, err)
		}
	}
	for line, want := range map[string]string{
		"wget x": "begins with curl", "curl": "no URL", "curl a b": "two URLs", "curl --proxy x a": "not known", "curl 'a": "not closed", "curl -d @f a": "a file", "curl -X": "needs a value",
		"curl -H x a": "no header",
	} {
		if _, err := Curl(line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
}

func TestWrite(t *testing.T) {
	r, err := Curl(`curl https://x.example/pay?n=1 -H 'Authorization: Bearer abc' -H 'Cookie: s=1' -H 'X-A: q"${z}' -H 'X-Amz-Security-Token: t0k1' -H 'X-XSRF-TOKEN: t0k2' -H 'Api-Key: t0k3' -uann:pw --json '{"a":"${b}"}'`)
	if err != nil {
		t.Fatal(err)
	}
	p, text, notes := compiled(t, []Request{r, {URL: "http://x.example/pay"}, {URL: "http://x.example/pay"}})
	for _, secret := range []string{"abc", "pw\"", "s=1", "t0k"} {
		if strings.Contains(text, secret) {
			t.Errorf("%q is in the scenario:\n%s", secret, text)
		}
	}
	if len(p.Steps) != 3 || p.Steps[1].Name == p.Steps[2].Name || len(notes) != 5 {
		t.Errorf("%s %q", text, notes)
	}
	body, err := p.Steps[0].Body.Append(nil, &load.Input{Rand: func() uint64 { return 0 }})
	if err != nil || string(body) != `{"a":"${b}"}` {
		t.Errorf("body %q, %v", body, err)
	}
	if _, _, err := Write("x", nil); err == nil {
		t.Error("no request")
	}
	if _, _, err := Write("x", []Request{{Method: "TRACE", URL: "http://x"}}); err == nil {
		t.Error("a method that is none")
	}
	many := make([]Request, load.MaxSteps+1)
	for i := range many {
		many[i].URL = "http://x.example/"
	}
	if p, _, notes := compiled(t, many); len(p.Steps) != load.MaxSteps || len(notes) != 1 {
		t.Error(notes)
	}
}

func TestHAR(t *testing.T) {
	text := `{"log":{"entries":[
 {"startedDateTime":"2026-01-02T03:04:05.000Z","time":100,"request":{"method":"GET","url":"https://x.example/","headers":[{"name":":authority","value":"x"},{"name":"Accept","value":"a"}]},"response":{"content":{"mimeType":"text/html; charset=utf-8"}}},
 {"startedDateTime":"2026-01-02T03:04:05.100Z","time":50,"request":{"method":"GET","url":"https://x.example/a.png"},"response":{"content":{"mimeType":"image/png"}}},
 {"startedDateTime":"2026-01-02T03:04:05.100Z","time":50,"request":{"method":"GET","url":"wss://x.example/ws"},"response":{"content":{"mimeType":""}}},
 {"startedDateTime":"2026-01-02T03:04:08.100Z","time":50,"request":{"method":"POST","url":"https://x.example/pay","postData":{"text":"a=1"}},"response":{"content":{"mimeType":"application/json"}}}
]}}`
	list, notes, err := HAR([]byte(text), false)
	if err != nil || len(list) != 2 || len(notes) != 2 || list[0].Think != 3*time.Second || list[1].Body != "a=1" {
		t.Fatalf("%+v %q %v", list, notes, err)
	}
	compiled(t, list)
	if list, _, _ := HAR([]byte(text), true); len(list) != 3 {
		t.Errorf("all: %+v", list)
	}
	for _, bad := range []string{"", "{}", "[1]"} {
		if _, _, err := HAR([]byte(bad), false); err == nil {
			t.Errorf("taken: %s", bad)
		}
	}
}

func TestTargets(t *testing.T) {
	list, err := Targets("# c\nGET http://x.example/a\nX-A: b:c\n\nPOST http://x.example/b\nGET http://x.example/c\n")
	if err != nil || len(list) != 3 || list[0].Headers["X-A"] != "b:c" || list[1].Method != "POST" {
		t.Fatalf("%+v %v", list, err)
	}
	compiled(t, list)
	for text, want := range map[string]string{"X: y": "line 1", "GET http://x\n@f": "a file", "GET http://x\n\nX: y": "line 3"} {
		if _, err := Targets(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzCurl(f *testing.F) {
	f.Add(`curl 'http://x' -H 'x-"token"}:1'`)
	f.Add(`curl 'http://x' -H $'a: \u0041' -d "b\"c"`)
	f.Fuzz(func(t *testing.T, line string) {
		r, err := Curl(line)
		if err != nil {
			return
		}
		text, _, err := Write("x", []Request{r})
		if err != nil {
			return
		}
		if _, err := load.Parse(text); err != nil && strings.Contains(err.Error(), "TOML") {
			t.Fatalf("%v\n%s", err, text)
		}
	})
}
