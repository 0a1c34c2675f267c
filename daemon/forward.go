package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/coord/member"
)

// protoAPI is the stream protocol by which a host hands a request to the
// holder or to a sponsor: one JSON request, one JSON reply.
const protoAPI = "skein-api/1"

// Bounds of a forwarded request.
const (
	maxHolderMessage = 4 << 20 // room for a group
	holderTime       = 30 * time.Second
	holderDial       = 2 * time.Second
	// holderPause lies between tries while the holder changes.
	holderPause = 100 * time.Millisecond
)

// remoteRequest is what another host must do; one field but Actor is set.
type remoteRequest struct {
	Actor string `json:"actor"` // who asked, as the host that forwards it says; see actorOf

	// Of the holder.
	Submit   *api.SubmitRequest `json:"submit,omitempty"`
	Stop     *stopJob           `json:"stop,omitempty"`
	Group    *cluster.GroupSet  `json:"group,omitempty"`
	Release  *releaseJob        `json:"release,omitempty"`
	StepDown *stepDown          `json:"step_down,omitempty"`
	Voters   *api.VotersRequest `json:"voters,omitempty"`
	// ShowVoters asks for what the holder knows of the voters.
	ShowVoters *struct{}               `json:"show_voters,omitempty"`
	Depart     *departRequest          `json:"depart,omitempty"`
	Conflict   *cluster.MemberConflict `json:"conflict,omitempty"`
	// Snapshot asks for a snapshot of the log.
	Snapshot *struct{} `json:"snapshot,omitempty"`
	// Workers asks for what the holder knows of the workers.
	Workers *struct{} `json:"workers,omitempty"`
	// Of any host.
	CheckLog *checkLog         `json:"check_log,omitempty"`
	Drain    *api.DrainRequest `json:"drain,omitempty"`
	// OnionGrant brings the key of an onion address, OnionDrain takes the host
	// out of the descriptors.
	OnionGrant *onionGrant            `json:"onion_grant,omitempty"`
	OnionDrain *api.OnionDrainRequest `json:"onion_drain,omitempty"`
	// Of a sponsor.
	Renew  *renewRequest  `json:"renew,omitempty"`
	Remove *removeRequest `json:"remove,omitempty"`
}

// ofSponsor reports whether r goes to a sponsor, not to the holder.
func (r remoteRequest) ofSponsor() bool { return r.Renew != nil || r.Remove != nil }

// stepDown asks the holder of one term to hand over.
type stepDown struct {
	Term cluster.Term `json:"term"`
	api.StepDownRequest
}

type stopJob struct {
	Job    cluster.JobID `json:"job"`
	Reason string        `json:"reason,omitempty"`
}

// releaseJob asks for what was given up of a job to be tried again.
type releaseJob struct {
	Job cluster.JobID `json:"job"`
}

// checkLog asks a host for a check of its own log: for one that it starts, or
// for the run of that number.
type checkLog struct {
	Run uint64 `json:"run,omitempty"`
}

// departRequest asks the holder to go on without a voter.
type departRequest struct {
	Node cluster.NodeID `json:"node"`
}

// renewRequest asks for a new certificate for the host that sends it.
type renewRequest struct{}

// removeRequest asks a sponsor to end a member's key.
type removeRequest struct {
	Node   cluster.NodeID `json:"node"`
	Reason string         `json:"reason,omitempty"`
}

// remoteReply answers it: Problem, or what was asked for.
type remoteReply struct {
	Problem  *api.Problem        `json:"problem,omitempty"`
	Submit   *api.SubmitResponse `json:"submit,omitempty"`
	Voters   *api.Voters         `json:"voters,omitempty"`
	Snapshot *api.LogSnapshot    `json:"snapshot,omitempty"`
	Workers  *api.Workers        `json:"workers,omitempty"`
	Released int                 `json:"released,omitempty"` // chunks
	// Check tells of a check of the log, which may go on.
	Check *api.LogCheck `json:"check,omitempty"`
	Drain *api.Drain    `json:"drain,omitempty"`
	// Cert is the text form of a renewed certificate.
	Cert *string `json:"cert,omitempty"`
	// By is who did it.
	By cluster.NodeID `json:"by,omitempty"`
	// Lacks says that the Problem is what this host lacks: another sponsor may
	// do what was asked for.
	Lacks bool `json:"lacks,omitempty"`
}

// lacking is the answer of a host that lacks a key or a right.
func lacking(p *api.Problem) remoteReply { return remoteReply{Problem: p, Lacks: true} }

// toHolder carries a request to whoever holds the lease, here or elsewhere,
// and follows the lease while it moves, until ctx ends. A request may so be
// carried out twice, and must not mind: a submit is known by its key, a stop
// and who shall vote say what is to be, a step-down names its term.
func (n *node) toHolder(ctx context.Context, req remoteRequest) (remoteReply, error) {
	ctx, cancel := context.WithTimeout(ctx, holderTime)
	defer cancel()
	for {
		reply, err := n.askHolder(ctx, req)
		if err != nil {
			reply.Problem = api.Errorf(api.CodeNoHolder, "holder not reached: %v", err)
		}
		switch {
		case reply.Problem == nil:
			return reply, nil
		case reply.Problem.Code != api.CodeNoHolder && reply.Problem.Code != api.CodeNotReady:
			return reply, reply.Problem
		}
		timer := time.NewTimer(holderPause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return reply, reply.Problem
		case <-timer.C:
		}
	}
}

// askHolder asks the holder of this moment, once.
func (n *node) askHolder(ctx context.Context, req remoteRequest) (remoteReply, error) {
	switch holder := n.coord.View().Lease.Holder; holder {
	case "":
		return remoteReply{Problem: api.Errorf(api.CodeNoHolder, "no holder is known").WithHint("`skein doctor` says why; `skein wait --for holder` waits for one")}, nil
	case n.id.Node:
		return n.asHolder(ctx, n.id.Node, req), nil
	default:
		return n.ask(ctx, holder, req, true)
	}
}

// toSponsor carries a request to a host that may certify others: this one if
// it may, else the others in turn, those that are alive first. A sponsor that
// refuses may lack the root key that the next one has; of several refusals the
// most telling is returned.
func (n *node) toSponsor(ctx context.Context, req remoteRequest) (remoteReply, error) {
	ctx, cancel := context.WithTimeout(ctx, holderTime)
	defer cancel()
	var why refusals
	if n.sponsor.Load() != nil {
		reply := n.asSponsor(ctx, n.id.Node, req)
		if reply.Problem == nil {
			return reply, nil
		}
		why.add(reply)
	}
	for _, to := range n.livingSponsors() {
		reply, err := n.ask(ctx, to, req, false)
		switch {
		case err != nil:
			why.unreached(err)
		case reply.Problem == nil:
			return reply, nil
		default:
			why.add(reply)
		}
	}
	return remoteReply{}, why.worst()
}

// livingSponsors lists the other sponsors that are alive, the best first.
func (n *node) livingSponsors() []cluster.NodeID {
	v := n.coord.View()
	return slices.DeleteFunc(n.reachable(), func(id cluster.NodeID) bool {
		m, ok := v.Member(id)
		return !ok || !slices.Contains(m.Caps, member.CapSponsor)
	})
}

// refusals collects why sponsors did not do what they were asked for.
type refusals struct {
	rank    int
	problem *api.Problem
}

// Ranks of refusals, from what says least.
const (
	rankUnreached = iota + 1
	rankLacks     // that host lacks a key or a right
	rankNo
)

func (r *refusals) note(rank int, p *api.Problem) {
	if rank > r.rank {
		r.rank, r.problem = rank, p
	}
}

func (r *refusals) add(reply remoteReply) {
	rank := rankNo
	if reply.Lacks {
		rank = rankLacks
	}
	r.note(rank, reply.Problem)
}

func (r *refusals) unreached(err error) {
	r.note(rankUnreached, api.Errorf(api.CodeNotReady, "sponsor not reached: %v", err).WithHint("see `skein mesh`"))
}

// worst is the refusal that tells most, the first of its kind.
func (r *refusals) worst() *api.Problem {
	if r.problem != nil {
		return r.problem
	}
	return api.Errorf(api.CodeNotReady, "no sponsor is alive").WithHint("%s", askSponsors(nil))
}

// askSponsors says who can do what only a sponsor can.
func askSponsors(alive []cluster.NodeID) string {
	if len(alive) == 0 {
		return "no sponsor is alive: start one, or make any member one with the root key: `skein root import FILE`"
	}
	names := make([]string, len(alive))
	for i, id := range alive {
		names[i] = string(id)
	}
	return "do it on a sponsor: " + strings.Join(names, " or ")
}

// ask sends req to another host and waits for its answer; if it is asked as
// the holder, for as long as it holds the lease.
func (n *node) ask(ctx context.Context, to cluster.NodeID, req remoteRequest, asHolder bool) (remoteReply, error) {
	dialCtx, cancelDial := context.WithTimeout(ctx, holderDial)
	conn, err := n.coord.Dial(dialCtx, to, protoAPI)
	cancelDial()
	if err != nil {
		return remoteReply{}, err
	}
	defer conn.Close()
	asked, done := context.WithCancel(ctx)
	defer done()
	if asHolder {
		go n.whileHolder(asked, to, conn)
	} else {
		deadline, _ := ctx.Deadline()
		_ = conn.SetDeadline(deadline) // a stream always has deadlines
	}
	if err := json.NewEncoder(conn).Encode(req); err != nil {
		return remoteReply{}, fmt.Errorf("ask %s: %w", to, err)
	}
	var reply remoteReply
	if err := json.NewDecoder(io.LimitReader(conn, maxHolderMessage)).Decode(&reply); err != nil {
		return remoteReply{}, fmt.Errorf("ask %s: %w", to, err)
	}
	if reply.Problem == nil && (req.Submit != nil && reply.Submit == nil || req.Voters != nil && reply.Voters == nil ||
		req.Workers != nil && reply.Workers == nil ||
		req.CheckLog != nil && reply.Check == nil || req.Drain != nil && reply.Drain == nil) {
		return remoteReply{}, fmt.Errorf("ask %s: %w", to, errors.New("empty answer"))
	}
	return reply, nil
}

// whileHolder ends the waiting on conn when to does not hold the lease any
// more: a holder that was killed never answers. It ends with ctx.
func (n *node) whileHolder(ctx context.Context, to cluster.NodeID, conn net.Conn) {
	tick := time.NewTicker(holderPause)
	defer tick.Stop()
	for n.coord.View().Lease.Holder == to {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
	_ = conn.SetDeadline(time.Now()) // a stream always has deadlines
}

// serveAPI answers one forwarded request of a member.
func (n *node) serveAPI(ctx context.Context, from cluster.NodeID, conn net.Conn) {
	ctx, cancel := context.WithTimeout(ctx, holderTime)
	defer cancel()
	_ = conn.SetDeadline(time.Now().Add(holderTime)) // a stream always has deadlines
	var req remoteRequest
	var reply remoteReply
	if err := json.NewDecoder(io.LimitReader(conn, maxHolderMessage)).Decode(&req); err != nil {
		reply.Problem = api.Errorf(api.CodeInvalidRequest, "request of %s: %v", from, err)
	} else {
		req.Actor = actorOf(from, req)
		switch {
		case req.CheckLog != nil:
			reply = n.checkLogFor(from, *req.CheckLog)
		case req.Drain != nil:
			if p := n.spare(from, favourDrain); p != nil {
				reply = remoteReply{Problem: p}
				break
			}
			reply = n.drainFor(ctx, req.Actor, *req.Drain)
		case req.OnionGrant != nil:
			reply = remoteReply{Problem: n.takeGrant(ctx, from, *req.OnionGrant)}
		case req.OnionDrain != nil:
			if p := n.spare(from, favourOnion); p != nil {
				reply = remoteReply{Problem: p}
				break
			}
			reply = remoteReply{Problem: n.drainOnionHere(ctx, req.Actor, req.OnionDrain.Undo)}
		case req.ofSponsor():
			reply = n.asSponsor(ctx, from, req)
		default:
			reply = n.asHolder(ctx, from, req)
		}
	}
	if err := json.NewEncoder(conn).Encode(reply); err != nil {
		n.log.Debug().Err(err).Str("peer", string(from)).Msg("forwarded request not answered")
	}
}

// asHolder does req of a member here; if this host does not hold, it says so.
func (n *node) asHolder(ctx context.Context, from cluster.NodeID, req remoteRequest) remoteReply {
	v := n.coord.View()
	if v.Lease.Role != cluster.RoleHolder {
		return remoteReply{Problem: api.Errorf(api.CodeNoHolder, "%s does not hold the lease", n.id.Node)}
	}
	switch {
	case req.Submit != nil:
		out, err := n.submitHere(ctx, *req.Submit, req.Actor)
		if err != nil {
			return remoteReply{Problem: problemOf(err)}
		}
		return remoteReply{Submit: &out}
	case req.Stop != nil:
		if err := n.sched.Stop(ctx, req.Stop.Job, req.Actor, req.Stop.Reason); err != nil {
			return remoteReply{Problem: problemOf(err)}
		}
		return remoteReply{}
	case req.Release != nil:
		chunks, err := n.sched.Release(ctx, req.Release.Job, req.Actor)
		if err != nil {
			return remoteReply{Problem: problemOf(err)}
		}
		return remoteReply{Released: chunks}
	case req.Group != nil:
		req.Group.Actor = req.Actor
		if err := n.sched.SetGroup(ctx, *req.Group); err != nil {
			return remoteReply{Problem: problemOf(err)}
		}
		return remoteReply{}
	case req.StepDown != nil:
		if v.Lease.Term != req.StepDown.Term {
			return remoteReply{} // that term is over, which is what was asked for
		}
		if p := maySucceed(v, req.StepDown.To); p != nil {
			return remoteReply{Problem: p}
		}
		if p := n.spare(from, favourStepDown); p != nil {
			return remoteReply{Problem: p}
		}
		reason := req.StepDown.Reason
		if reason == "" {
			reason = "asked by " + req.Actor
		}
		if err := n.coord.StepDown(ctx, req.StepDown.To, reason, false); err != nil {
			return remoteReply{Problem: api.Errorf(api.CodeConflict, "%v", err)}
		}
		n.record(ctx, cluster.KindStepDownAsked, cluster.StepDownAsked{
			Term: v.Lease.Term, Successor: req.StepDown.To, Reason: req.StepDown.Reason, Actor: req.Actor,
		})
		return remoteReply{}
	case req.ShowVoters != nil:
		out := votersOf(v)
		return remoteReply{Voters: &out}
	case req.Snapshot != nil:
		return n.snapshotHere(ctx, req.Actor)
	case req.Workers != nil:
		out := n.workersHere(v)
		return remoteReply{Workers: &out}
	case req.Voters != nil:
		return n.setVoters(ctx, from, req.Actor, *req.Voters)
	case req.Depart != nil:
		return remoteReply{Problem: n.depart(ctx, from, req.Depart.Node)}
	case req.Conflict != nil:
		return remoteReply{Problem: n.noteConflict(ctx, from, *req.Conflict)}
	}
	return remoteReply{Problem: api.Errorf(api.CodeInvalidRequest, "empty request")}
}

// maySucceed reports why the host that an operator named cannot take the lease
// over from this one; empty means the best, whoever that is.
func maySucceed(v *coord.View, to cluster.NodeID) *api.Problem {
	if to == "" {
		return nil
	}
	m, ok := v.Member(to)
	switch {
	case !ok:
		return noMember(to)
	case to == v.Self:
		return api.Errorf(api.CodeConflict, "%s holds the lease already", to)
	}
	why := ""
	switch {
	case m.Incompatible != "":
		why = m.Incompatible
	case m.Health != cluster.Alive:
		why = "it is " + string(m.Health)
	case m.Witness:
		why = "it is a witness"
	case !m.Eligible:
		why = "its lease.eligible is false"
	case !v.Lease.Config.Has(to):
		why = "it is no voter"
	case !m.CaughtUp:
		why = "its event log is behind"
	default:
		return nil
	}
	return api.Errorf(api.CodeConflict, "%s cannot take the lease over: %s", to, why).
		WithHint("see `skein members -o wide` and `skein lease`; without --to the best host takes over")
}

// asSponsor does req here for the member that asked.
func (n *node) asSponsor(ctx context.Context, from cluster.NodeID, req remoteRequest) remoteReply {
	switch {
	case req.Renew != nil:
		return n.renewFor(ctx, from)
	case req.Remove != nil:
		return n.remove(ctx, from, req.Actor, *req.Remove)
	}
	return remoteReply{Problem: api.Errorf(api.CodeInvalidRequest, "empty request")}
}

// StepDown implements status.LeaseControl. It returns the lease that was given
// up.
func (b backend) StepDown(ctx context.Context, actor string, req api.StepDownRequest) (api.Lease, error) {
	before, err := b.Lease(ctx)
	if err != nil {
		return before, err
	}
	if before.Holder == "" {
		return before, api.Errorf(api.CodeNoHolder, "nobody holds the lease, as far as %s knows: there is nothing to hand over", b.id.Node).
			WithHint("`skein doctor` says why")
	}
	_, err = b.toHolder(ctx, remoteRequest{StepDown: &stepDown{Term: before.Term, StepDownRequest: req}, Actor: b.at(actor)})
	return before, err
}
