package bundle

import (
	"strings"
	"testing"
)

const scenario = `
vars = { base = "http://127.0.0.1:1" }
thresholds = ["p(95)<500"]
data.users = { file = "users.csv", pick = "unique" }
traffic.main = { flow = "main", users = 2, for = "5s" }
[[flow.main]]
get = "${base}/${users.name}"
headers = { X = "${secret.key}" }
`

func TestBundle(t *testing.T) {
	b := &Bundle{Name: "x.toml", Scenario: scenario, Vars: map[string]string{"base": "http://10.0.0.1:80"}, Files: map[string][]byte{"users.csv": []byte("name\nann\nbob\n")}}
	text, err := b.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	p, rules, err := got.Compile(nil)
	if err != nil || len(rules) != 1 || len(p.Sets) != 1 || len(p.Sets[0].Rows.Rows) != 2 || p.Vars["base"] != "http://10.0.0.1:80" {
		t.Fatalf("%+v, %v", p, err)
	}
	if _, _, err := got.Compile(func(string) (string, bool) { return "", false }); err == nil || !strings.Contains(err.Error(), "key") {
		t.Errorf("a secret that is not there: %v", err)
	}
	s, err := got.Parse()
	if err != nil || len(Needs(s)) != 1 {
		t.Errorf("%v, %v", Needs(s), err)
	}
	got.Files = nil
	if _, _, err := got.Compile(nil); err == nil || !strings.Contains(err.Error(), "users.csv") {
		t.Errorf("without its rows: %v", err)
	}
	got.Vars["nope"] = "x"
	if _, err := got.Parse(); err == nil {
		t.Error("a variable that is none")
	}
	u := &Bundle{URL: &URL{URL: "http://127.0.0.1:80/", Rate: 10, Users: 5, Seconds: 3, Thresholds: []string{"p(95)<5"}}}
	if p, rules, err := u.Compile(nil); err != nil || len(rules) != 1 || len(p.Traffics) != 1 {
		t.Error(err)
	}
	u.URL.Seconds = 0
	if _, err := u.Parse(); err == nil {
		t.Error("no time")
	}
	for _, bad := range []string{"", "{}", `{"version":2,"scenario":"x"}`, `{"version":1}`, `{"version":1,"scenario":"x","url":{"url":"x"}}`} {
		if _, err := Decode([]byte(bad)); err == nil {
			t.Errorf("taken: %s", bad)
		}
	}
}

// TestNeeds: all that a scenario names travels with it.
func TestNeeds(t *testing.T) {
	b := &Bundle{Scenario: `traffic.main = { flow = "f", users = 1, for = "1s" }
data.users = { file = "users.csv" }
grpc = { descriptors = "api.binpb" }
http = { tls = { ca = "ca.pem", cert = "c.pem", key = "k.pem" } }
[[flow.f]]
get = "https://x/"
hook = { wasm = "sign.wasm", call = "sign" }
[[flow.f]]
grpc = "https://x/a.B/C"`}
	s, err := b.Parse()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(Needs(s), " "); got != "users.csv api.binpb sign.wasm ca.pem c.pem k.pem" {
		t.Error(got)
	}
}
