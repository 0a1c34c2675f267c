package overload

import (
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
)

func TestHandTo(t *testing.T) {
	holder := Seat{Level: Severe, Holding: true, MinTenure: 5 * time.Minute}
	n2, n3 := Voter{Node: "n2", Fit: true}, Voter{Node: "n3", Level: Elevated, Fit: true}
	at := func(v Voter, l Level) Voter { v.Level = l; return v }
	unfit := func(v Voter) Voter { v.Fit = false; return v }
	gave := holder
	gave.Gave, gave.GaveEver = time.Hour-4*time.Minute, true
	long := gave
	long.Gave = time.Hour - 5*time.Minute
	high, standby := holder, holder
	high.Level, standby.Holding = High, false
	for name, c := range map[string]struct {
		seat   Seat
		voters []Voter
		to     cluster.NodeID
	}{
		"to the calmest":                 {holder, []Voter{n3, n2}, "n2"},
		"to one that is elevated":        {holder, []Voter{at(n2, High), n3}, "n3"},
		"not to one that is high":        {holder, []Voter{at(n2, High), at(n3, High)}, ""},
		"not to one that could not hold": {holder, []Voter{unfit(n2), at(n3, High)}, ""},
		"not if most voters are severe":  {holder, []Voter{n2, at(n3, Severe)}, ""},
		"not below severe":               {high, []Voter{n2, n3}, ""},
		"not by a standby":               {standby, []Voter{n2, n3}, ""},
		"once in a while":                {gave, []Voter{n2, n3}, ""},
		"and again after that":           {long, []Voter{n2, n3}, "n2"},
		"nobody else votes":              {holder, nil, ""},
	} {
		if to, ok := c.seat.HandTo(c.voters, time.Hour); to != c.to || ok != (c.to != "") {
			t.Errorf("%s: %q %v, want %q", name, to, ok, c.to)
		}
	}
}

func TestStands(t *testing.T) {
	calm, bad := Voter{Node: "n2", Fit: true}, Voter{Node: "n3", Level: Critical, Fit: true}
	for name, c := range map[string]struct {
		level  Level
		voters []Voter
		stands bool
	}{
		"high hosts do":                        {High, []Voter{calm, calm}, true},
		"severe ones leave it to calm ones":    {Severe, []Voter{calm, calm}, false},
		"critical ones leave it to calm ones":  {Critical, []Voter{calm, calm}, false},
		"unless there is none":                 {Critical, []Voter{{Node: "n2", Level: High, Fit: true}, {Node: "n3"}}, true},
		"unless most of them are as bad":       {Critical, []Voter{calm, bad}, true},
		"a host alone always does":             {Critical, nil, true},
		"of two voters both of which are busy": {Critical, []Voter{bad}, true},
	} {
		if got := (Seat{Level: c.level}).Stands(c.voters); got != c.stands {
			t.Errorf("%s: %v", name, got)
		}
	}
	if !(Seat{Level: Severe, Holding: true}).Stands([]Voter{calm, calm}) {
		t.Error("a severe holder does not keep it until it is handed over")
	}
}
