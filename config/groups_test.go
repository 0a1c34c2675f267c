package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/skein-project/skein/cluster"
)

func TestParseGroups(t *testing.T) {
	got, err := ParseGroups([]byte("# who renders\nrender = [\"uid:2\", \"node:n4\", \"uid:2\"]\nnobody = []\n"))
	if err != nil || len(got) != 2 || got[0].Group != "nobody" || len(got[0].Members) != 0 || strings.Join(got[1].Members, " ") != "node:n4 uid:2" {
		t.Fatalf("%+v, %v", got, err)
	}
	var b strings.Builder
	b.WriteString("many = [\n")
	for i := range cluster.MaxGroupMembers {
		fmt.Fprintf(&b, "\"uid:%d\",\n", i)
	}
	b.WriteString("]\n")
	if got, err := ParseGroups([]byte(b.String())); err != nil || len(got[0].Members) != cluster.MaxGroupMembers {
		t.Fatalf("%d members: %v", cluster.MaxGroupMembers, err)
	}
	many := strings.Repeat("x", MaxGroupsFile+1)
	groups := ""
	for i := range cluster.MaxGroups + 1 {
		groups += fmt.Sprintf("g%d = []\n", i)
	}
	for text, want := range map[string]string{
		"render = \"uid:1\"":                          "incompatible types",
		"render = [1]":                                "incompatible types",
		"render = [\"uid 1\"]":                        "is not a name that can be there",
		"Render = [\"uid:1\"]":                        "is not the name of a group",
		"render = [":                                  "line 1",
		"a = [\"x\"]\na = [\"y\"]":                    "line 2",
		"[render]\nuid = [\"x\"]":                     "incompatible types",
		strings.Replace(b.String(), "]", "\"z\"]", 1): "members has 10001 entries",
		many: "at most 33554432",
		// What would take all stack, or all time.
		"a = " + strings.Repeat("[", MaxGroupsFile-10):         "line 1: want the name of a group",
		"a = " + strings.Repeat("[\n", MaxGroupsFile/2-10):     "line 2: want the name of a group",
		"x = []\na = " + strings.Repeat("{a=", 1<<20):          "line 2: want the name of a group",
		strings.Repeat("a.", 1<<20) + "a = []":                 "line 1: want the name of a group",
		"a = [\"\"\" \" \"\"\", " + strings.Repeat("[", 1<<24): "several lines",
		"a = [\"x\\\", \"" + strings.Repeat("[", 1<<24):        "line 1: want",
		"a = " + strings.Repeat("1", 1<<20):                    "groups: toml",
		groups:                                                 "1025 groups, at most 1024",
	} {
		if got, err := ParseGroups([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, %v, want %q", text, got, err, want)
		}
	}
}

func FuzzParseGroups(f *testing.F) {
	f.Add("render = [\"uid:1\"]")
	f.Add("a.b = []")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ParseGroups([]byte(text))
		if err != nil {
			return
		}
		for _, g := range got {
			if err := g.Check(); err != nil {
				t.Errorf("%+v: %v", g, err)
			}
		}
	})
}
