package suite

import "testing"

func TestTargets(t *testing.T) {
	for _, c := range []struct {
		ours, peer float64
		target     Target
		want       bool
	}{
		{1, 2, Want("ratio", "<=", 0.5), true},
		{1.1, 2, Want("ratio", "<=", 0.5), false},
		{1, 0, Want("ratio", "<=", 1), false}, // nothing to compare with
		{0, 0, Want("ours", "<=", 0), true},
		{1, 0, Want("ours", "<=", 0), false},
		{9, 10, Want("ratio", ">=", 0.8), true},
		{7, 10, Want("ratio", ">=", 0.8), false},
		{7, 0, Target{}, true},
	} {
		s := Series{Target: c.target, Digest: Median, Ours: []float64{c.ours}, Peer: []float64{c.peer}}
		if r := s.result(); r.OK != c.want {
			t.Errorf("%+v is ok=%t, want %t", r, r.OK, c.want)
		}
	}
}

func TestStatistics(t *testing.T) {
	v := []float64{5, 1, 4, 2, 3}
	if m := Median(v); m != 3 {
		t.Errorf("median %v", m)
	}
	if m := Median(v[:4]); m != 3 {
		t.Errorf("median of four %v", m)
	}
	if p := P99(v); p != 5 {
		t.Errorf("p99 of five %v", p)
	}
	if p := percentile(v, 50); p != 3 {
		t.Errorf("p50 %v", p)
	}
	if r := round(123456); r != 123500 {
		t.Errorf("rounded %v", r)
	}
	if s := number(122_712_345); s != "122700000" {
		t.Errorf("printed %s", s)
	}
	if s := number(0.000123456); s != "0.0001235" {
		t.Errorf("printed %s", s)
	}
}
