package tor

import (
	"context"
	"strings"
)

// IntroCircuit is an established circuit to an introduction point.
type IntroCircuit struct {
	Address string // the service's
	Relay   string // 40 hexadecimal digits
}

// IntroCircuits lists the established circuits to introduction points. After a
// relay died a service's descriptor still lists it for up to a minute; this
// list does not.
func (t *Tor) IntroCircuits(ctx context.Context) ([]IntroCircuit, error) {
	text, err := t.ask(ctx, commandTime, "circuit-status")
	if err != nil {
		return nil, err
	}
	var found []IntroCircuit
	for _, c := range introCircuits(text) {
		if c.built && c.established && c.Relay != "" {
			found = append(found, c.IntroCircuit)
		}
	}
	return found, nil
}

// introCircuit is a circuit to an introduction point in any state.
type introCircuit struct {
	IntroCircuit
	id          string
	before      string // the relay before the point, as Relay; "": not known
	built       bool
	established bool // the point knows the service
}

// introCircuits reads what tor says of its circuits.
func introCircuits(text string) (found []introCircuit) {
	for line := range strings.Lines(text) {
		// 12 BUILT $AA~a,$BB~b BUILD_FLAGS=... PURPOSE=HS_SERVICE_INTRO ...
		fields := strings.Fields(line)
		if len(fields) < 3 {
			continue
		}
		attrs := map[string]string{}
		for _, f := range fields[2:] {
			key, value, _ := strings.Cut(f, "=")
			attrs[key] = value
		}
		address := withOnion(attrs["REND_QUERY"])
		if attrs["PURPOSE"] != "HS_SERVICE_INTRO" || address == "" {
			continue
		}
		c := introCircuit{id: fields[0], built: fields[1] == "BUILT", established: attrs["HS_STATE"] == "HSSI_ESTABLISHED"}
		c.Address = address
		hops := strings.Split(fields[2], ",")
		c.Relay = relayID(hops[len(hops)-1])
		if len(hops) > 1 {
			c.before = relayID(hops[len(hops)-2])
		}
		found = append(found, c)
	}
	return found
}
