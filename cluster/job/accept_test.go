package job

import (
	"fmt"
	"slices"
	"testing"
)

func TestAcceptance(t *testing.T) {
	member := func(group, who string) bool { return group == "friends" && who == "user:bob" }
	for _, c := range []struct {
		a       Acceptance
		owner   string
		accepts []string
	}{
		{Acceptance{}, "", []string{"user:ann", "user:bob", "user:eve", ""}},
		{Acceptance{}, "user:ann", []string{"user:ann"}},
		{Acceptance{Accept: AcceptPublic}, "user:ann", []string{"user:ann", "user:bob", "user:eve", ""}},
		{Acceptance{Accept: AcceptOwner}, "user:ann", []string{"user:ann"}},
		{Acceptance{Accept: AcceptOwner}, "", nil},
		{Acceptance{Accept: AcceptUser, Names: []string{"user:eve"}}, "user:ann", []string{"user:ann", "user:eve"}},
		{Acceptance{Accept: AcceptGroup, Names: []string{"foes", "friends"}}, "user:ann", []string{"user:ann", "user:bob"}},
		{Acceptance{Accept: AcceptNone}, "user:ann", nil},
		{Acceptance{Accept: "later"}, "user:ann", []string{"user:ann"}},
	} {
		var got []string
		for _, who := range []string{"user:ann", "user:bob", "user:eve", ""} {
			if c.a.Settle(c.owner).Allows(c.owner, who, member) {
				got = append(got, who)
			}
		}
		if !slices.Equal(got, c.accepts) {
			t.Errorf("%v of %q accepts %q, want %q", c.a, c.owner, got, c.accepts)
		}
	}
}

func TestAcceptanceIsChecked(t *testing.T) {
	var many []string
	for i := range MaxAcceptNames + 1 {
		many = append(many, fmt.Sprintf("user:%03d", i))
	}
	for _, a := range []Acceptance{{}, {Accept: AcceptNone}, {Accept: AcceptUser, Names: many[1:]}, {Accept: AcceptGroup, Names: []string{"friends"}}} {
		if err := a.Check(); err != nil {
			t.Errorf("%v: %v", a, err)
		}
	}
	for _, a := range []Acceptance{
		{Accept: "all"},
		{Names: []string{"user:ann"}},
		{Accept: AcceptOwner, Names: []string{"user:ann"}},
		{Accept: AcceptUser, Names: many},
		{Accept: AcceptUser, Names: []string{"b", "a"}},
		{Accept: AcceptUser, Names: []string{"with blank "}},
		{Accept: AcceptGroup, Names: []string{"user:ann"}},
	} {
		if a.Check() == nil {
			t.Errorf("%.40v passes", a)
		}
	}
}
