package pace

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/skein-project/skein/load"
)

func stages(rng *rand.Rand) []load.Stage {
	out := make([]load.Stage, 1+rng.IntN(5))
	for i := range out {
		out[i] = load.Stage{To: float64(rng.IntN(200)), Over: time.Duration(rng.IntN(4)) * 700 * time.Millisecond}
	}
	return out
}

// Arrivals are where a naive integrator finds them.
func TestDueAgainstIntegrator(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const step = 50 * time.Microsecond
	for round := range 25 {
		list := stages(rng)
		start := time.Duration(rng.IntN(3)) * 300 * time.Millisecond
		c := New(start, list)
		n, area := uint64(0), 0.0
		for at := start; at < c.End(); at += step {
			for ; float64(n) <= area && n < c.Arrivals(); n++ {
				due, ok := c.Even(n)
				if rate := c.Level(at); !ok || math.Abs((due-at).Seconds()) > 3*step.Seconds()+2/max(rate, 1)*1e-3+0.02*btof(rate < 5) {
					t.Fatalf("round %d %v: arrival %d is due at %s (%t), the integral says %s", round, list, n, due, ok, at)
				}
			}
			area += c.Level(at) * step.Seconds()
		}
		if math.Abs(area-c.area) > 0.05*max(1, c.area)*0.1 {
			t.Fatalf("round %d: the area is %g, integrated %g", round, c.area, area)
		}
		if _, ok := c.Even(c.Arrivals()); ok {
			t.Fatal("one arrival too many")
		}
	}
}

func btof(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func TestEvenIsExact(t *testing.T) {
	c := New(time.Second, []load.Stage{{To: 1000}, {To: 1000, Over: 24 * time.Hour}})
	if n := c.Arrivals(); n != 86_400_000 {
		t.Fatal(n)
	}
	for _, n := range []uint64{0, 1, 999, 1000, 50_000_001, 86_399_999} {
		if at, ok := c.Even(n); !ok || at != time.Second+time.Duration(n)*time.Millisecond {
			t.Errorf("arrival %d is due at %s", n, at)
		}
	}
	third := New(0, []load.Stage{{To: 1.0 / 3}, {To: 1.0 / 3, Over: 3 * time.Second}})
	if n := third.Arrivals(); n != 1 {
		t.Errorf("%d arrivals of a third a second in 3 s", n)
	}
}

func TestLevel(t *testing.T) {
	c := New(time.Second, []load.Stage{{To: 100, Over: 10 * time.Second}, {To: 100, Over: 5 * time.Second}, {To: 10}, {To: 10, Over: time.Second}})
	for at, want := range map[time.Duration]float64{
		0: 0, time.Second: 0, 6 * time.Second: 50, 11 * time.Second: 100, 15 * time.Second: 100, 16 * time.Second: 10, 17 * time.Second: 0,
	} {
		if got := c.Level(at); got != want {
			t.Errorf("at %s: %g, want %g", at, got, want)
		}
	}
	if c.Most() != 100 || c.End() != 17*time.Second {
		t.Error(c.Most(), c.End())
	}
}

// Gaps of a Poisson sequence have the mean of the rate, and vary as much.
func TestPoisson(t *testing.T) {
	c := New(0, []load.Stage{{To: 200}, {To: 200, Over: 100 * time.Second}})
	p, rng := c.Poisson(), rand.New(rand.NewPCG(3, 4))
	n, last, sum, squares := 0.0, time.Duration(0), 0.0, 0.0
	for {
		at, ok := p.Next(rng.Float64())
		if !ok {
			break
		}
		gap := (at - last).Seconds()
		n, last, sum, squares = n+1, at, sum+gap, squares+gap*gap
	}
	mean := sum / n
	if n < 19_400 || n > 20_600 || math.Abs(math.Sqrt(squares/n-mean*mean)/mean-1) > 0.05 {
		t.Errorf("%g arrivals, mean gap %g", n, mean)
	}
}

// TestRate: what is due at a time, of all traffic and steps.
func TestRate(t *testing.T) {
	const steps = "[[flow.f]]\nget = \"http://x/\"\n[[flow.f]]\nname = \"b\"\nget = \"http://x/\"\n[[flow.g]]\nget = \"http://x/\"\n"
	for text, want := range map[string]float64{
		"traffic.a = { flow = \"f\", rate = 50, for = \"1m\" }\n":                                                                     100,
		"traffic.a = { flow = \"f\", rate = 50, for = \"1m\" }\ntraffic.b = { flow = \"g\", rate = [{ to = 40, over = \"20s\" }] }\n": 120,
		"traffic.a = { flow = \"f\", rate = 50, for = \"1m\" }\ntraffic.b = { flow = \"g\", users = 5, for = \"1m\" }\n":              0,
		"traffic.a = { flow = \"f\", rate = 50, for = \"1m\", start = \"30s\" }\n":                                                    0,
	} {
		s, err := load.Parse(text + steps)
		if err != nil {
			t.Fatal(err)
		}
		p, err := s.Compile(load.Inputs{})
		if err != nil {
			t.Fatal(err)
		}
		if got := Rate(p, 10*time.Second); math.Abs(got-want) > 0.01 {
			t.Errorf("%s: %g, want %g", text, got, want)
		}
	}
}

// TestRise: the most by which a plan rises, by its rate over the seconds until then.
func TestRise(t *testing.T) {
	for text, want := range map[string]float64{
		"users = 1000, for = \"1m\"":                              0,
		"rate = 100, for = \"1m\"":                                100,
		"rate = 100, for = \"1m\", start = \"9s\"":                10,
		"rate = [{ to = 100, over = \"9s\" }, { hold = \"1m\" }]": 10,
		"rate = [{ to = 5, over = \"1s\" }, { hold = \"8s\" }, { to = 500, over = \"0s\" }, { hold = \"1m\" }]": 50,
	} {
		s, err := load.Parse("traffic.main = { flow = \"f\", " + text + " }\n[[flow.f]]\nget = \"http://x/\"\n")
		if err != nil {
			t.Fatal(err)
		}
		p, err := s.Compile(load.Inputs{})
		if err != nil {
			t.Fatal(err)
		}
		if got := Rise(p); math.Abs(got-want) > want/1e6 {
			t.Errorf("%s: %g, want %g", text, got, want)
		}
	}
}
