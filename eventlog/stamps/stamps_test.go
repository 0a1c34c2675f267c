package stamps

import (
	"testing"
	"time"

	"github.com/skein-project/skein/cluster/event"
)

func TestMayWrite(t *testing.T) {
	const hours = 2 * time.Hour
	long := Facts{Booted: hours, Last: -time.Minute}
	with := func(f Facts, change func(*Facts)) Facts { change(&f); return f }
	three := with(long, func(f *Facts) { f.Need, f.Others = 1, 2 })
	five := with(long, func(f *Facts) { f.Need, f.Others = 2, 4 })
	pair := with(long, func(f *Facts) { f.Others = 1 })
	for name, c := range map[string]struct {
		f    Facts
		want string
	}{
		"a majority agrees":                        {with(three, func(f *Facts) { f.Agree = 1 }), ""},
		"a majority agrees, one differs":           {with(three, func(f *Facts) { f.Agree, f.Differ, f.Offset = 1, 1, -hours }), ""},
		"a majority differs":                       {with(three, func(f *Facts) { f.Differ, f.Offset = 2, -hours }), "its clock is 2h0m0s ahead of others, and 0 of 2 other voters agree with it"},
		"a majority differs, whatever is synced":   {with(three, func(f *Facts) { f.Differ, f.Offset, f.Synced = 2, hours, true }), "its clock is 2h0m0s behind others, and 0 of 2 other voters agree with it"},
		"a majority differs, however long":         {with(three, func(f *Facts) { f.Differ, f.Offset, f.Waited = 2, hours, hours }), "its clock is 2h0m0s behind others, and 0 of 2 other voters agree with it"},
		"one of five agrees":                       {with(five, func(f *Facts) { f.Agree = 1 }), "no majority of the voters was heard whose clocks agree with its own"},
		"two of five agree":                        {with(five, func(f *Facts) { f.Agree = 2 }), ""},
		"no voter heard, though synced":            {with(three, func(f *Facts) { f.Synced = true }), "no majority of the voters was heard whose clocks agree with its own"},
		"alone":                                    {long, ""},
		"alone and new, on a machine just started": {Facts{Empty: true}, ""},
		"alone, on a machine just started":         {with(long, func(f *Facts) { f.Booted = time.Second }), "the machine has just started, and no time service has set its clock yet"},
		"on a machine just started, synced":        {with(long, func(f *Facts) { f.Booted, f.Synced = time.Second, true }), ""},
		"alone and behind its newest event":        {with(long, func(f *Facts) { f.Last = hours }), "its clock is 2h0m0s behind its newest event, and no time service keeps it"},
		"the same, after a while":                  {with(long, func(f *Facts) { f.Last, f.Waited = hours, Patience }), ""},
		"the same, synced":                         {with(long, func(f *Facts) { f.Last, f.Synced = hours, true }), ""},
		"may go on alone, another not heard yet":   {pair, "no other host was heard yet"},
		"another was not heard":                    {with(pair, func(f *Facts) { f.Waited = Hearing }), ""},
		"another agrees":                           {with(pair, func(f *Facts) { f.Agree = 1 }), ""},
		"another differs":                          {with(pair, func(f *Facts) { f.Differ, f.Offset = 1, -hours }), "its clock is 2h0m0s ahead of others, and no time service keeps it"},
		"another still differs after a while":      {with(pair, func(f *Facts) { f.Differ, f.Offset, f.Waited = 1, -hours, Patience }), "its clock is 2h0m0s ahead of others, and no time service keeps it"},
		"another differs for long":                 {with(pair, func(f *Facts) { f.Differ, f.Offset, f.Waited = 1, -hours, Dispute }), ""},
		"another differs, but this one is synced":  {with(pair, func(f *Facts) { f.Differ, f.Offset, f.Synced = 1, -hours, true }), ""},
	} {
		if got := MayWrite(c.f); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestAhead(t *testing.T) {
	wall := time.Unix(1_700_000_000, 0)
	for at, want := range map[time.Duration]bool{-time.Hour: false, 0: false, Limit: false, Limit + time.Millisecond: true, time.Hour: true} {
		if ahead, refused := Ahead(wall.Add(at), wall); ahead != at || refused != want {
			t.Errorf("%s: %s, %t", at, ahead, refused)
		}
	}
	c := Chain{Source: event.SourceID{Node: "n3", Inc: 1}, Seq: 4, Ahead: 2 * time.Hour}
	if got := c.String(); got != "chain n3/1 is 2h0m0s ahead of the clocks: its events are refused" {
		t.Error(got)
	}
	c.Own = true
	if got := c.String(); got != "its chain n3/1 is 2h0m0s ahead of the clocks: the other hosts refuse its events" {
		t.Error(got)
	}
}

func TestTakeBack(t *testing.T) {
	facts := Tail{Ahead: time.Hour, Voters: 3, Majority: 2, Lack: 1, Agreed: Steady}
	with := func(change func(*Tail)) Tail {
		tail := facts
		change(&tail)
		return tail
	}
	for name, c := range map[string]struct {
		t    Tail
		want string
	}{
		"facts that one voter lacks":            {facts, ""},
		"soon over":                             {with(func(t *Tail) { t.Ahead = Limit + Margin }), "it is over soon"},
		"agreed a moment ago":                   {with(func(t *Tail) { t.Agreed = Steady - 1 }), "its clock has not agreed with a majority for long enough"},
		"the rest is ahead too":                 {with(func(t *Tail) { t.Rest = time.Hour }), "events of other hosts in its log are ahead as well"},
		"no voter answers":                      {with(func(t *Tail) { t.Lack = 0 }), "no voter has answered that it lacks them"},
		"authority that one voter may have":     {with(func(t *Tail) { t.Authority = true }), "voters that do not answer may have them"},
		"authority that both others lack":       {with(func(t *Tail) { t.Authority, t.Lack = true, 2 }), ""},
		"five voters, two lack it":              {with(func(t *Tail) { t.Authority, t.Voters, t.Majority, t.Lack = true, 5, 3, 2 }), "voters that do not answer may have them"},
		"five voters, three lack it":            {with(func(t *Tail) { t.Authority, t.Voters, t.Majority, t.Lack = true, 5, 3, 3 }), ""},
		"each voter may act alone":              {with(func(t *Tail) { t.Authority, t.Majority, t.Lack = true, 1, 2 }), "voters that do not answer may have them"},
		"the only voter":                        {with(func(t *Tail) { t.Authority, t.Voters, t.Majority, t.Lack = true, 1, 1, 0 }), "no voter has answered that it lacks them"},
		"a host that does not vote, two of two": {with(func(t *Tail) { t.Authority, t.Voters, t.Majority, t.Lack = true, 2, 2, 1 }), ""},
	} {
		if got := TakeBack(c.t); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
