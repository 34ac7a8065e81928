----------------------------- MODULE PushProtocol -----------------------------
(***************************************************************************)
(* The control requests of ZooKeeper mode after KIP-380: LeaderAndIsr,     *)
(* UpdateMetadata, StopReplica and ControlledShutdown, between controllers *)
(* and brokers that bounce.                                                *)
(*                                                                         *)
(* There is one partition with a replica on every broker. A broker epoch   *)
(* is the number of its registration in ZooKeeper. Docs/specifications.md  *)
(* says what is modelled.                                                  *)
(***************************************************************************)
EXTENDS Naturals, Sequences, FiniteSets

CONSTANTS
    Brokers,
    Faults,        \* The most bounces, failovers, session losses, shutdowns and repeated requests.
    Broken         \* The set of rules that a broken variant leaves out; {} for the protocol itself.

VARIABLES
    \* ZooKeeper: the controller epoch, the registration of each broker (0: none), the last registration, the partition.
    controllerEpoch, registered, lastEpoch,
    leader, isr, leaderEpoch,
    \* The active controller: the registrations that it knows, the brokers that it shuts down.
    known, leaving,
    \* The connection of each controller (by its epoch) to each broker: requests in order. The first one is repeated
    \* until the broker answers, and a broker that has restarted may be the one that gets it.
    connections,
    \* ControlledShutdown requests in the network.
    shutdowns,
    \* Brokers.
    up, epoch, highest, initialized, role, roleEpoch, metadata, stopping,
    faults,
    \* For properties only: the epochs of the last request that each broker applied, and of the last shutdown.
    applied, begun

zookeeper == <<controllerEpoch, registered, lastEpoch>>
partition == <<leader, isr, leaderEpoch>>
controller == <<known, leaving>>
network == <<connections, shutdowns>>
brokers == <<up, epoch, highest, initialized, role, roleEpoch, metadata, stopping>>
ghosts == <<applied, begun>>
vars == <<zookeeper, partition, controller, network, brokers, faults, ghosts>>

None == "none"
Epochs == 1..controllerEpoch
Controllers == 1..(Faults + 1)
Candidates == Brokers \cup {None}

Message == [type : {"LeaderAndIsr", "UpdateMetadata", "StopReplica"}, epoch : Nat, full : BOOLEAN,
            leader : Candidates, leaderEpoch : Nat]

TypeOK ==
    /\ controllerEpoch \in Controllers /\ registered \in [Brokers -> 0..lastEpoch] /\ lastEpoch \in Nat
    /\ leader \in Candidates /\ isr \subseteq Brokers /\ isr # {} /\ leaderEpoch \in Nat
    /\ known \in [Brokers -> 0..lastEpoch] /\ leaving \subseteq Brokers
    /\ \A c \in Controllers, b \in Brokers : \A k \in DOMAIN connections[c][b] : connections[c][b][k] \in Message
    /\ shutdowns \subseteq [broker : Brokers, epoch : Nat]
    /\ up \in [Brokers -> BOOLEAN] /\ epoch \in [Brokers -> 0..lastEpoch] /\ highest \in [Brokers -> 0..controllerEpoch]
    /\ initialized \in [Brokers -> {"no", "all partitions", "some partitions"}]
    /\ role \in [Brokers -> {"none", "leader", "follower", "stopped"}] /\ roleEpoch \in [Brokers -> 0..leaderEpoch]
    /\ metadata \in [Brokers -> 0..leaderEpoch] /\ stopping \in [Brokers -> BOOLEAN]
    /\ faults \in 0..Faults

\* Every broker is registered and initialized; the broker with epoch 1 leads.
Init ==
    \E order \in [Brokers -> 1..Cardinality(Brokers)] :
        LET first == CHOOSE b \in Brokers : order[b] = 1 IN
        /\ \A a, b \in Brokers : a # b => order[a] # order[b]
        /\ \A b \in Brokers : b # first \/ b = CHOOSE each \in Brokers : TRUE
        /\ controllerEpoch = 1 /\ registered = order /\ lastEpoch = Cardinality(Brokers)
        /\ leader = first /\ isr = Brokers /\ leaderEpoch = 1
        /\ known = order /\ leaving = {}
        /\ connections = [c \in Controllers |-> [b \in Brokers |-> <<>>]] /\ shutdowns = {}
        /\ up = [b \in Brokers |-> TRUE] /\ epoch = order /\ highest = [b \in Brokers |-> 1]
        /\ initialized = [b \in Brokers |-> "all partitions"]
        /\ role = [b \in Brokers |-> IF b = first THEN "leader" ELSE "follower"]
        /\ roleEpoch = [b \in Brokers |-> 1] /\ metadata = [b \in Brokers |-> 1]
        /\ stopping = [b \in Brokers |-> FALSE]
        /\ faults = Faults
        /\ applied = [b \in Brokers |-> "current"] /\ begun = [b \in Brokers |-> 0]

-----------------------------------------------------------------------------
\* The controller's requests. `epochs` are the broker epochs in the requests.

Request(type, b, epochs, full) ==
    [type |-> type, epoch |-> epochs[b], full |-> full, leader |-> leader', leaderEpoch |-> leaderEpoch']

\* UpdateMetadata before LeaderAndIsr, to the brokers `to`; brokers in `all` get all of their partitions.
Updates(b, to, all, epochs) ==
    IF b \notin to THEN <<>>
    ELSE <<Request("UpdateMetadata", b, epochs, FALSE), Request("LeaderAndIsr", b, epochs, b \in all)>>

Live(epochs) == {b \in Brokers : epochs[b] # 0}

\* The partition without the brokers `gone`: another member of the ISR leads, and the last member stays in the ISR.
IsrWithout(gone) == IF isr \subseteq gone THEN isr ELSE isr \ gone
MayLead(members, live) == IF members \cap live = {} THEN {None} ELSE members \cap live

Changed(after, members) ==
    /\ leader' = after /\ isr' = members
    /\ leaderEpoch' = IF after = leader /\ members = isr THEN leaderEpoch ELSE leaderEpoch + 1

-----------------------------------------------------------------------------
\* Brokers and their registrations.

Stop(b) ==
    /\ up[b] /\ (faults > 0 \/ stopping[b])
    /\ faults' = IF stopping[b] THEN faults ELSE faults - 1
    /\ up' = [up EXCEPT ![b] = FALSE] /\ registered' = [registered EXCEPT ![b] = 0]
    /\ UNCHANGED <<controllerEpoch, lastEpoch, partition, controller, network, epoch, highest, initialized, role>>
    /\ UNCHANGED <<roleEpoch, metadata, stopping, ghosts>>

\* "It needs to create the ephemeral znode and get back the broker generation (czxid) atomically."
Start(b) ==
    /\ ~up[b]
    /\ lastEpoch' = lastEpoch + 1 /\ registered' = [registered EXCEPT ![b] = lastEpoch + 1]
    /\ up' = [up EXCEPT ![b] = TRUE] /\ epoch' = [epoch EXCEPT ![b] = lastEpoch + 1]
    /\ highest' = [highest EXCEPT ![b] = 0] /\ initialized' = [initialized EXCEPT ![b] = "no"]
    /\ role' = [role EXCEPT ![b] = "none"] /\ roleEpoch' = [roleEpoch EXCEPT ![b] = 0]
    /\ metadata' = [metadata EXCEPT ![b] = 0] /\ stopping' = [stopping EXCEPT ![b] = FALSE]
    /\ applied' = [applied EXCEPT ![b] = "current"]
    /\ UNCHANGED <<controllerEpoch, partition, controller, network, faults, begun>>

\* The broker loses its ZooKeeper session and registers again; the controller may read the new epoch before the broker.
RegisterAgain(b) ==
    /\ faults > 0 /\ up[b] /\ registered[b] = epoch[b]
    /\ faults' = faults - 1
    /\ lastEpoch' = lastEpoch + 1 /\ registered' = [registered EXCEPT ![b] = lastEpoch + 1]
    /\ UNCHANGED <<controllerEpoch, partition, controller, network, brokers, ghosts>>

LearnEpoch(b) ==
    /\ up[b] /\ epoch[b] < registered[b]
    /\ epoch' = [epoch EXCEPT ![b] = registered[b]]
    /\ UNCHANGED <<zookeeper, partition, controller, network, up, highest, initialized, role, roleEpoch, metadata>>
    /\ UNCHANGED <<stopping, faults, ghosts>>

\* The leader adds a follower to the ISR.
JoinIsr(b) ==
    /\ leader \in Brokers \ {b} /\ b \notin isr
    /\ up[leader] /\ role[leader] = "leader" /\ roleEpoch[leader] = leaderEpoch
    /\ up[b] /\ role[b] = "follower" /\ roleEpoch[b] = leaderEpoch
    /\ isr' = isr \cup {b}
    /\ UNCHANGED <<zookeeper, leader, leaderEpoch, controller, network, brokers, faults, ghosts>>

-----------------------------------------------------------------------------
\* The controller.

New == {b \in Brokers : known[b] = 0 /\ registered[b] # 0}
Dead == {b \in Brokers : known[b] # 0 /\ registered[b] = 0}
Bounced == IF "bounced brokers" \in Broken THEN {} ELSE
    {b \in Brokers : known[b] # 0 /\ registered[b] > known[b]}

\* "Controller Detects Bounced Broker": failures first, then the new broker epochs, then start-ups.
BrokerChange ==
    LET gone == Dead \cup (IF "failure of bounced brokers" \in Broken THEN {} ELSE Bounced)
        came == New \cup Bounced
        after == [b \in Brokers |-> IF b \in New \cup Dead \cup Bounced THEN registered[b] ELSE known[b]]
        epochs == IF "new epoch before start-up" \in Broken
                  THEN [b \in Brokers |-> IF b \in Bounced THEN known[b] ELSE after[b]] ELSE after
        members == IsrWithout(gone)
        live == Live(after) \ (leaving \ gone)
    IN
    /\ New \cup Dead \cup Bounced # {}
    /\ known' = after /\ leaving' = leaving \ gone
    \* A broker that came back may lead if no other member of the ISR may.
    /\ \E elected \in IF leader \in live \ gone THEN {leader}
                      ELSE IF members \cap (live \ gone) # {} THEN members \cap (live \ gone)
                      ELSE MayLead(members, live) :
           Changed(elected, members)
    \* The connection to a broker that is gone is closed.
    /\ connections' = [connections EXCEPT ![controllerEpoch] = [b \in Brokers |->
           (IF b \in Dead \cup Bounced THEN <<>> ELSE @[b])
           \o (IF b \in came \/ leader' # leader \/ isr' # isr THEN Updates(b, Live(after), came, epochs) ELSE <<>>)]]
    /\ UNCHANGED <<zookeeper, shutdowns, brokers, faults, ghosts>>

\* Another controller is elected. It reads ZooKeeper, and sends every broker all of its partitions.
Failover ==
    LET live == Live(registered) IN
    /\ faults > 0 /\ faults' = faults - 1
    /\ controllerEpoch' = controllerEpoch + 1 /\ known' = registered /\ leaving' = {}
    /\ \E elected \in IF leader \in live THEN {leader} ELSE MayLead(isr, live) : Changed(elected, isr)
    /\ connections' = [connections EXCEPT ![controllerEpoch + 1] =
           [b \in Brokers |-> Updates(b, live, Brokers, registered)]]
    /\ begun' = [b \in Brokers |-> 0]
    /\ UNCHANGED <<registered, lastEpoch, shutdowns, brokers, applied>>

\* The broker asks for a controlled shutdown; it may send the request more than once.
RequestShutdown(b) ==
    /\ faults > 0 /\ faults' = faults - 1 /\ up[b]
    /\ stopping' = [stopping EXCEPT ![b] = TRUE]
    /\ shutdowns' = shutdowns \cup {[broker |-> b, epoch |-> epoch[b]]}
    /\ UNCHANGED <<zookeeper, partition, controller, connections, up, epoch, highest, initialized, role, roleEpoch>>
    /\ UNCHANGED <<metadata, ghosts>>

\* "Controller will check the broker generation (czxid) in ControlledShutdownRequest and will reject the request if its
\* broker generation is smaller than the broker generation cached in the controller side."
IsStale(request) ==
    \/ known[request.broker] = 0
    \/ request.epoch < known[request.broker] /\ "broker epoch of ControlledShutdown" \notin Broken

RejectShutdown(request) ==
    /\ IsStale(request)
    /\ shutdowns' = shutdowns \ {request}
    /\ UNCHANGED <<zookeeper, partition, controller, connections, brokers, faults, ghosts>>

\* The leader moves first; a broker that follows gets StopReplica.
BeginShutdown(request) ==
    LET b == request.broker
        others == Live(known) \ (leaving \cup {b})
        members == IsrWithout({b})
    IN
    /\ ~IsStale(request)
    /\ shutdowns' = shutdowns \ {request}
    /\ leaving' = leaving \cup {b} /\ begun' = [begun EXCEPT ![b] = request.epoch]
    /\ IF leader = b
       THEN IF members \cap others = {} THEN Changed(leader, isr)
            ELSE \E elected \in members \cap others : Changed(elected, members)
       ELSE Changed(leader, members)
    /\ connections' = [connections EXCEPT ![controllerEpoch] = [each \in Brokers |->
           @[each] \o (IF leaderEpoch' # leaderEpoch THEN Updates(each, Live(known) \ ({b} \ {leader}), {}, known) ELSE <<>>)
           \o (IF each = b /\ leader # b THEN <<Request("StopReplica", b, known, FALSE)>> ELSE <<>>)]]
    /\ UNCHANGED <<zookeeper, known, brokers, faults, applied>>

-----------------------------------------------------------------------------
\* Brokers handle control requests.

\* "A broker will reject the requests with smaller broker generation than its current generation." A greater one is valid.
IsOfFormerGeneration(b, m) == m.epoch < epoch[b]
IsRejected(c, b, m) ==
    \/ IsOfFormerGeneration(b, m) /\ "broker epochs" \notin Broken
    \/ m.epoch > epoch[b] /\ "greater broker epochs" \in Broken
    \/ c < highest[b] /\ "controller epochs" \notin Broken

Received(c, b) == connections' = [connections EXCEPT ![c][b] = Tail(@)]

\* The controller does not send a rejected request again.
Reject(c, b) ==
    /\ up[b] /\ connections[c][b] # <<>> /\ IsRejected(c, b, Head(connections[c][b]))
    /\ Received(c, b)
    /\ UNCHANGED <<zookeeper, partition, controller, shutdowns, brokers, faults, ghosts>>

Apply(c, b) ==
    LET m == Head(connections[c][b]) IN
    /\ up[b] /\ connections[c][b] # <<>> /\ ~IsRejected(c, b, m)
    /\ Received(c, b)
    /\ highest' = [highest EXCEPT ![b] = c]
    /\ applied' = [applied EXCEPT ![b] = IF IsOfFormerGeneration(b, m) THEN "former generation"
                                         ELSE IF c < highest[b] THEN "stale controller" ELSE @]
    /\ CASE m.type = "UpdateMetadata" ->
              metadata' = [metadata EXCEPT ![b] = m.leaderEpoch] /\ UNCHANGED <<initialized, role, roleEpoch>>
         [] m.type = "StopReplica" ->
              role' = [role EXCEPT ![b] = "stopped"] /\ UNCHANGED <<initialized, roleEpoch, metadata>>
         [] m.type = "LeaderAndIsr" ->
              /\ initialized' = [initialized EXCEPT ![b] =
                     IF @ # "no" THEN @ ELSE IF m.full THEN "all partitions" ELSE "some partitions"]
              /\ role' = [role EXCEPT ![b] =
                     IF m.leaderEpoch <= roleEpoch[b] THEN @ ELSE IF m.leader = b THEN "leader" ELSE "follower"]
              /\ roleEpoch' = [roleEpoch EXCEPT ![b] = IF m.leaderEpoch > @ THEN m.leaderEpoch ELSE @]
              /\ UNCHANGED metadata
    /\ UNCHANGED <<zookeeper, partition, controller, shutdowns, up, epoch, stopping, faults, begun>>

-----------------------------------------------------------------------------
Next ==
    \/ \E b \in Brokers : Stop(b)
    \/ \E b \in Brokers : Start(b)
    \/ \E b \in Brokers : RegisterAgain(b)
    \/ \E b \in Brokers : LearnEpoch(b)
    \/ \E b \in Brokers : JoinIsr(b)
    \/ BrokerChange
    \/ Failover
    \/ \E b \in Brokers : RequestShutdown(b)
    \/ \E request \in shutdowns : RejectShutdown(request)
    \/ \E request \in shutdowns : BeginShutdown(request)
    \/ \E c \in Controllers, b \in Brokers : Reject(c, b)
    \/ \E c \in Controllers, b \in Brokers : Apply(c, b)

Fairness ==
    /\ \A b \in Brokers :
        /\ WF_vars(Start(b)) /\ WF_vars(stopping[b] /\ Stop(b)) /\ WF_vars(LearnEpoch(b))
        /\ \A c \in Controllers : WF_vars(Reject(c, b) \/ Apply(c, b))
    /\ WF_vars(BrokerChange)
    /\ WF_vars(\E request \in shutdowns : RejectShutdown(request) \/ BeginShutdown(request))

Spec == Init /\ [][Next]_vars
FairSpec == Spec /\ Fairness

-----------------------------------------------------------------------------
\* Safety. The first four properties are the four examples in the Motivation of KIP-380.

\* "the bounced broker may accidentally process its earlier generation's StopReplicaRequest ..., leaving the replica
\* offline"
BouncedReplicaIsNotStopped == \A b \in Brokers : up[b] /\ role[b] = "stopped" => stopping[b]

\* "This guarantees controller will not attempt to send out control requests to move partitions and stop replicas in
\* reaction to a broker cleaned shutdown if the broker has already been restarted."
NoShutdownOfRestartedBroker == \A b \in leaving : begun[b] >= known[b]

\* "The first LeaderAndIsrRequest received by a broker after it starts up always contains all partitions hosted by the
\* broker."
FirstLeaderAndIsrHasAllPartitions == \A b \in Brokers : initialized[b] # "some partitions"

\* "a broker will reject requests that are intended to be sent to the previous generations"
PreviousGenerationsAreRejected == \A b \in Brokers : applied[b] # "former generation"

\* "Broker can only reject controller requests if they are sent from a stale controller with older controller epoch."
StaleControllersAreRejected == \A b \in Brokers : applied[b] # "stale controller"

OneLeaderPerEpoch ==
    \A a, b \in Brokers : a # b /\ role[a] = "leader" /\ role[b] = "leader" => roleEpoch[a] # roleEpoch[b]

\* Liveness: bounces, failovers and shutdowns end.

\* "controller will miss the broker restart and will not send any requests to the broker for initialization. The broker
\* will not be able to accept traffics."
RestartIsNotMissed == <>[](\A b \in Brokers : initialized[b] # "no" /\ metadata[b] # 0)

\* "Broker should always process the control requests sent by the active controller."
BrokersHaveTheLatestState ==
    <>[](\A b \in Brokers : metadata[b] = leaderEpoch /\ (role[b] = "leader" <=> leader = b))
===============================================================================
