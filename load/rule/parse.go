package rule

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/stat"
)

// aggregate is what of a series is compared.
type aggregate uint8

const (
	percentile aggregate = iota
	average
	least
	greatest
	perSecond
	share
	count
)

// Rule is a threshold that is understood.
type Rule struct {
	load.Threshold
	step   int // -1: all
	phase  stat.Phase
	of     aggregate
	p      float64    // of a percentile, 0 to 1
	class  load.Class // of share and count
	failed bool       // all classes but ok
	checks bool
	// The checks of the step, by their places in the plan.
	firstCheck, lastCheck int
	op                    string
	bound                 float64 // seconds, requests a second, a share, a number
}

const form = "a threshold is [STEP:] [PHASE.]AGG OP VALUE, as p(95)<500, pay: p(99)<0.8s, first_byte.avg<50ms, rate(failed)<1%, rps>100; " +
	"AGG is one of p(N) avg min max med rps rate(X) count(X), X a class, failed or checks; OP one of < <= > >= == !="

var shape = regexp.MustCompile(`^\s*(?:([A-Za-z_][\w.-]*)\s*:)?\s*(?:([a-z_]+)\s*\.)?\s*(p|avg|min|max|med|rps|rate|count)\s*(?:\(\s*([\w.]+)\s*\))?\s*(<=|>=|==|!=|<|>)\s*([-+\d.eE]+)\s*([a-zµ%]*)\s*$`)

// Compile understands the thresholds of a plan. Its error is of type load.Faults.
func Compile(p *load.Plan) ([]*Rule, error) {
	var rules []*Rule
	var faults error
	for _, t := range p.Thresholds {
		r, err := parse(t.When, p.Steps)
		if err != nil {
			faults = p.Refuse(t, form, err.Error())
			continue
		}
		r.Threshold = t
		rules = append(rules, r)
	}
	return rules, faults
}

func parse(text string, steps []*load.Step) (*Rule, error) {
	m := shape.FindStringSubmatch(text)
	if m == nil {
		return nil, fmt.Errorf("%q is no threshold", text)
	}
	step, phase, agg, arg, op, value, unit := m[1], m[2], m[3], m[4], m[5], m[6], m[7]
	r := &Rule{step: -1, op: op}
	if step != "" {
		names := make([]string, len(steps))
		for i, s := range steps {
			if names[i] = s.Name; s.Name == step {
				r.step, r.firstCheck, r.lastCheck = i, s.FirstCheck, s.FirstCheck+len(s.Checks)
			}
		}
		if r.step < 0 {
			return nil, fmt.Errorf("there is no step %q, there are %s", step, strings.Join(names, ", "))
		}
	}
	if err := r.aggregate(agg, arg); err != nil {
		return nil, err
	}
	if phase != "" {
		ph, ok := stat.PhaseNamed(phase)
		if !ok {
			return nil, fmt.Errorf("there is no phase %q: latency service late dns connect tls send first_byte receive", phase)
		}
		if !r.timed() {
			return nil, fmt.Errorf("%s has no phases", agg)
		}
		r.phase = ph
	}
	return r, r.value(value, unit)
}

// timed reports whether a time is compared.
func (r *Rule) timed() bool { return r.of <= greatest }

func (r *Rule) aggregate(agg, arg string) error {
	wants := agg == "p" || agg == "rate" || agg == "count"
	if wants != (arg != "") {
		return fmt.Errorf("%s(%s): p, rate and count have one argument, the others none", agg, arg)
	}
	switch agg {
	case "p":
		n, err := strconv.ParseFloat(arg, 64)
		if err != nil || !(n >= 0 && n <= 100) {
			return fmt.Errorf("p(%s): want a number of 0 to 100", arg)
		}
		r.of, r.p = percentile, n/100
	case "med":
		r.of, r.p = percentile, 0.5
	case "avg":
		r.of = average
	case "min":
		r.of = least
	case "max":
		r.of = greatest
	case "rps":
		r.of = perSecond
	default:
		r.of = share
		if agg == "count" {
			r.of = count
		}
		class, known := load.ClassNamed(arg)
		r.class, r.failed, r.checks = class, arg == "failed", arg == "checks"
		if !known && !r.failed && !r.checks {
			return fmt.Errorf("there is no class %q: failed, checks, %s", arg, strings.Join(load.ClassNames(), ", "))
		}
	}
	return nil
}

// value reads the bound in its unit: milliseconds, where a time has none.
func (r *Rule) value(text, unit string) error {
	x, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil || math.IsNaN(x) || math.IsInf(x, 0):
		return fmt.Errorf("%q is no number", text)
	case r.timed():
		if unit == "" {
			unit = "ms"
		}
		d, err := time.ParseDuration(strconv.FormatFloat(x, 'f', -1, 64) + unit)
		if err != nil || d < 0 {
			return fmt.Errorf("%s%s is no time", text, unit)
		}
		r.bound = d.Seconds()
		return nil
	case r.of == share && unit == "%":
		x /= 100
	case unit != "":
		return fmt.Errorf("%s%s has a unit that is none of it", text, unit)
	}
	if r.of == share && (x < 0 || x > 1) {
		return errors.New("a rate is a share of 0 to 1, or of 0% to 100%")
	}
	r.bound = x
	return nil
}

// holds compares.
func (r *Rule) holds(x float64) bool {
	switch r.op {
	case "<":
		return x < r.bound
	case "<=":
		return x <= r.bound
	case ">":
		return x > r.bound
	case ">=":
		return x >= r.bound
	case "==":
		return x == r.bound
	}
	return x != r.bound
}

// Unit is what the value is in: s, /s, share, or nothing.
func (r *Rule) Unit() string {
	switch {
	case r.timed():
		return "s"
	case r.of == perSecond:
		return "/s"
	case r.of == share:
		return "share"
	}
	return ""
}
