package wire

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// TestNewBackendUnhealthy: what any list of backends makes fits a datagram, is
// accepted, and names the failing ones first.
func TestNewBackendUnhealthy(t *testing.T) {
	long := strings.Repeat("l", 200)
	var many []Backend
	for i := range 20 {
		many = append(many, Backend{Name: fmt.Sprintf("%02d%s", i, long), Healthy: i%2 == 0})
	}
	for _, c := range []struct {
		name   string
		in     []Backend
		want   []Backend
		legacy string
	}{
		{"one", []Backend{{Name: "127.0.0.1:80"}}, []Backend{{Name: "127.0.0.1:80"}}, "127.0.0.1:80"},
		{"failing first", []Backend{{"a", true}, {"c", false}, {"b", false}}, []Backend{{"b", false}, {"c", false}, {"a", true}}, "b"},
		{"all healthy again", []Backend{{"a", true}}, []Backend{{"a", true}}, "a"},
		{"65 bytes", []Backend{{long[:65], false}}, []Backend{{long[:65], false}}, long[:61] + "..."},
		{"unprintable", []Backend{{"unix:/sock\u00e9\n", false}, {"", false}}, []Backend{{"unix:/sock??", false}}, "unix:/sock??"},
		{"many", many, []Backend{
			{"01" + long[:123] + "...", false}, {"03" + long[:123] + "...", false}, {"05" + long[:123] + "...", false}, {"07" + long[:123] + "...", false},
		}, "01" + long[:59] + "..."},
	} {
		b, ok := NewBackendUnhealthy(c.in)
		if !ok || !reflect.DeepEqual(b.Backends, c.want) || b.Backend != c.legacy {
			t.Errorf("%s: %+v, %t", c.name, b, ok)
		}
		if err := Check(b); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		h := Header{Node: "abcdefghijklmnopqrstuvwxyz012345", Time: 1_900_000_000, Type: TypeBackendUnhealthy, To: "abcdefghijklmnopqrstuvwxyz012345", Boot: 1 << 52, Seq: 1 << 52}
		if _, err := Seal(testKey(1), h, b); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if b, ok := NewBackendUnhealthy(nil); ok {
		t.Errorf("of none: %+v", b)
	}
}

// TestBackendsOfOtherVersions: a host of an earlier version reads the backend
// that fails out of what this one sends, and this one what that one sends.
func TestBackendsOfOtherVersions(t *testing.T) {
	type before struct {
		Backend string `json:"backend"`
	}
	b, _ := NewBackendUnhealthy([]Backend{{"a", true}, {"b", false}})
	text, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	var old before
	if err := json.Unmarshal(text, &old); err != nil || old.Backend != "b" {
		t.Errorf("an earlier version reads %+v, %v", old, err)
	}
	if text, err = json.Marshal(before{"b"}); err != nil {
		t.Fatal(err)
	}
	var from BackendUnhealthy
	if err := json.Unmarshal(text, &from); err != nil || !reflect.DeepEqual(from.All(), []Backend{{"b", false}}) {
		t.Errorf("this version reads %+v, %v", from.All(), err)
	}
}
