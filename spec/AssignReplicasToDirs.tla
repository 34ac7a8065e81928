------------------------- MODULE AssignReplicasToDirs -------------------------
(***************************************************************************)
(* AssignReplicasToDirs of KIP-858: where a broker keeps one replica, and  *)
(* what the controller knows about it.                                     *)
(*                                                                         *)
(* "b" is the broker of the replica. "o" stands for all other replicas of  *)
(* the partition. Docs/specifications.md says what is modelled.            *)
(* tests/specifications/directories.py has the same actions in Python; ci/spec       *)
(* compares the two state graphs.                                          *)
(***************************************************************************)
EXTENDS Naturals, Sequences, FiniteSets

CONSTANTS
    Dirs,      \* The directories of the broker at the beginning.
    Spares,    \* Directories that replace lost ones.
    Faults,    \* The most events of the environment: failures, crashes, moves, reassignments, lost requests.
    InOrder,   \* The controller handles the requests of the broker in the order of sending, each at most once.
    Broken     \* The set of rules that a broken variant leaves out; {} for the protocol itself.

VARIABLES
    \* The controller: the broker's registration, and the partition.
    registered, controllerEpoch, fenced,
    assigned, isr, leader,
    \* The broker: its process, its disks, the replica, the metadata that it has published.
    up, epoch,
    online, failed, lost, spare,
    place, future, move, creating,
    feed, seen,
    \* The broker's assignments: queued, in flight, the answer to it, the last one sent that `seen` does not have.
    want, flying, answer, sent,
    \* The network, and the events that the environment has left.
    net, faults,
    \* For properties only: the last directory that the controller accepted while this process waited, and the
    \* offline directory that has the replica.
    accepted, shadow

registration == <<registered, controllerEpoch, fenced>>
partition == <<assigned, isr, leader>>
process == <<up, epoch>>
disks == <<online, failed, lost, spare>>
replica == <<place, future, move, creating>>
metadata == <<feed, seen>>
queue == <<want, flying, answer, sent>>
vars == <<registration, partition, process, disks, replica, metadata, queue, net, faults, accepted, shadow>>

AllDirs == Dirs \cup Spares
Reported == AllDirs \cup {"lost"}
Assignments == Reported \cup {"unassigned", "none"}  \* "none": the broker has no replica of the partition.

TypeOK ==
    /\ registered \subseteq AllDirs /\ controllerEpoch \in Nat /\ fenced \in BOOLEAN
    /\ assigned \in Assignments /\ isr \subseteq {"b", "o"} /\ isr # {} /\ leader \in isr \cup {"none"}
    /\ up \in BOOLEAN /\ epoch \in 0..controllerEpoch
    /\ online \subseteq AllDirs /\ failed \subseteq AllDirs /\ lost \subseteq AllDirs /\ spare \subseteq Spares
    /\ online \cap (failed \cup lost) = {} /\ failed \cap lost = {}
    /\ place \in AllDirs \cup {"none"} /\ future \in AllDirs \cup {"none"}
    /\ move \in {"none", "copying", "asking", "accepted", "left"} /\ creating \in AllDirs \cup {"none", "any"}
    /\ \A k \in DOMAIN feed : feed[k] \in Assignments
    /\ seen \in Assignments \cup {"unpublished"}
    /\ {want, flying, sent} \subseteq Reported \cup {"none"}
    /\ answer \in {"none", "accepted", "refused", "gone"}
    /\ faults \in 0..Faults

Init ==
    /\ registered = Dirs /\ controllerEpoch = 1 /\ fenced = FALSE
    /\ assigned = "unassigned" /\ isr = {"b", "o"} /\ leader = "b"
    /\ up = TRUE /\ epoch = 1
    /\ online = Dirs /\ failed = {} /\ lost = {} /\ spare = Spares
    /\ place = "none" /\ future = "none" /\ move = "none" /\ creating = "none"
    /\ feed = <<"unassigned">> /\ seen = "unpublished"
    /\ want = "none" /\ flying = "none" /\ answer = "none" /\ sent = "none"
    /\ net = <<>> /\ faults = Faults
    /\ accepted = "none" /\ shadow = "none"

-----------------------------------------------------------------------------
\* The controller's rules.

\* A broker that lists no directory counts as one without directories in its registration (KAFKA-16162).
IsOnline(directory, directories) ==
    directory \in directories \cup {"unassigned"} \/ (directories = {} /\ directory # "lost")

\* The metadata log after a change of the assignment; the broker reads it from its own registration on.
FeedWith(after) == IF epoch # 0 /\ after # assigned THEN Append(feed, after) ELSE feed

\* ISR and leader without broker "b", which stays in the ISR as its last member.
WithoutB == IF isr = {"b"} THEN isr ELSE isr \ {"b"}
LeadersWithoutB == IF leader = "o" THEN {"o"} ELSE (WithoutB \cap {"o"}) \cup {"none"}

\* ISR and leader when the broker is fenced. If all members are fenced together, the ISR stays without a leader.
Gone == {<<WithoutB, each>> : each \in LeadersWithoutB} \cup {<<isr, "none">>}

\* "Replicas are considered offline if the replica references a log directory UUID that is not present in the hosting
\* Broker's latest registration": such a replica is not elected.
Elect(members, elected) ==
    /\ <<members, elected>> # <<isr, leader>>
    /\ members # {} /\ members \cap isr # {} /\ elected \in members \cup {"none"}
    /\ "b" \in members => assigned # "none"
    /\ "b" \in members \ isr => ~fenced /\ leader = "o"
    /\ elected = "b" => ~fenced /\ IsOnline(assigned, registered)
    /\ isr' = members /\ leader' = elected
    /\ UNCHANGED <<registration, assigned, process, disks, replica, metadata, queue, net, faults, accepted, shadow>>

\* The broker's session ends, because the process is down or its heartbeats are lost.
Fence(members, elected) ==
    /\ ~fenced /\ (up => faults > 0)
    /\ <<members, elected>> \in Gone
    /\ fenced' = TRUE /\ isr' = members /\ leader' = elected
    /\ faults' = IF up THEN faults - 1 ELSE faults
    /\ UNCHANGED <<registered, controllerEpoch, assigned, process, disks, replica, metadata, queue, net>>
    /\ UNCHANGED <<accepted, shadow>>

\* The broker has caught up. A late heartbeat of the last process may also unfence it.
Unfence ==
    /\ fenced /\ (epoch # 0 => seen # "unpublished")
    /\ fenced' = FALSE
    /\ UNCHANGED <<registered, controllerEpoch, partition, process, disks, replica, metadata, queue, net, faults>>
    /\ UNCHANGED <<accepted, shadow>>

\* A heartbeat lists "the accumulated failed log directories"; a delayed heartbeat lists fewer.
DirectoriesOffline(directories, elected) ==
    /\ directories # {} /\ directories \subseteq registered \ online
    /\ registered' = registered \ directories
    /\ IF assigned \in directories /\ "keeps the leader on a failure" \notin Broken
       THEN elected \in LeadersWithoutB /\ isr' = WithoutB /\ leader' = elected
       ELSE elected = leader /\ UNCHANGED <<isr, leader>>
    /\ UNCHANGED <<controllerEpoch, fenced, assigned, process, disks, replica, metadata, queue, net, faults>>
    /\ UNCHANGED <<accepted, shadow>>

\* The request for which the broker waits. In order, it is the newest one.
IsCurrent(k) ==
    /\ flying # "none" /\ answer = "none"
    /\ IF InOrder THEN k = Len(net) ELSE net[k] = [directory |-> flying, epoch |-> epoch]

\* In order, a request overtakes no other and arrives once. Otherwise any request may arrive late or again.
NetAfter(k) == IF InOrder THEN SubSeq(net, k + 1, Len(net)) ELSE net
NetWith(request) == IF ~InOrder /\ \E k \in DOMAIN net : net[k] = request THEN net ELSE Append(net, request)
FaultsAfter(k) == IF InOrder \/ IsCurrent(k) THEN faults ELSE faults - 1

\* The members and the leader after the assignment of a directory.
Outcomes(directory) ==
    IF directory \in registered \/ "keeps the leader of an offline directory" \in Broken
    THEN {<<isr, each>> : each \in {leader} \cup
             (IF leader # "none" THEN {} ELSE {other \in isr : other = "b" => ~fenced})}
    ELSE {<<WithoutB, each>> : each \in LeadersWithoutB}

\* The controller handles an AssignReplicasToDirs request. It compares the broker epoch.
Assign(k, members, elected) ==
    /\ k \in DOMAIN net /\ assigned # "none" /\ FaultsAfter(k) >= 0
    /\ net[k].epoch = controllerEpoch \/ "accepts every epoch" \in Broken
    /\ <<members, elected>> \in Outcomes(net[k].directory)
    /\ assigned' = net[k].directory /\ isr' = members /\ leader' = elected
    /\ feed' = FeedWith(net[k].directory)
    /\ answer' = IF IsCurrent(k) THEN "accepted" ELSE answer
    /\ accepted' = IF IsCurrent(k) THEN net[k].directory ELSE accepted
    /\ net' = NetAfter(k) /\ faults' = FaultsAfter(k)
    /\ UNCHANGED <<registration, process, disks, replica, seen, want, flying, sent, shadow>>

\* The partition has no replica on this broker (NOT_LEADER_OR_FOLLOWER), or is deleted (UNKNOWN_TOPIC_ID).
Refuse(k, error) ==
    /\ assigned = "none" /\ k \in DOMAIN net /\ IsCurrent(k)
    /\ error \in {"refused", "gone"}
    /\ answer' = error /\ net' = NetAfter(k)
    /\ UNCHANGED <<registration, partition, process, disks, replica, metadata, want, flying, sent, faults>>
    /\ UNCHANGED <<accepted, shadow>>

\* A reassignment removes the replica, or the topic is deleted.
RemoveReplica(elected) ==
    /\ faults > 0 /\ assigned # "none" /\ elected \in {"o", "none"}
    /\ assigned' = "none" /\ isr' = {"o"} /\ leader' = elected
    /\ feed' = FeedWith("none") /\ faults' = faults - 1 /\ shadow' = "none"
    /\ UNCHANGED <<registration, process, disks, replica, seen, queue, net, accepted>>

\* A reassignment adds the replica, or the topic is created. A broker with one directory gets this directory.
AddReplica(directory, members, elected) ==
    /\ faults > 0 /\ assigned = "none"
    /\ directory = IF Cardinality(registered) = 1 THEN CHOOSE each \in registered : TRUE ELSE "unassigned"
    /\ members # {} /\ elected \in members \cup {"none"}
    /\ "b" \in members => ~fenced
    /\ assigned' = directory /\ isr' = members /\ leader' = elected
    /\ feed' = FeedWith(directory) /\ faults' = faults - 1
    /\ UNCHANGED <<registration, process, disks, replica, seen, queue, net, accepted, shadow>>

\* A new process registers its directories, and is fenced at first.
Register(members, elected) ==
    /\ up /\ epoch = 0
    /\ registered' = online \cup failed
    /\ controllerEpoch' = controllerEpoch + 1 /\ epoch' = controllerEpoch + 1 /\ fenced' = TRUE
    /\ <<members, elected>> \in Gone /\ isr' = members /\ leader' = elected
    /\ feed' = <<assigned>>
    /\ UNCHANGED <<assigned, up, disks, replica, seen, queue, net, faults, accepted, shadow>>

\* The controller handles the registration of a process that has ended, before the next process is registered.
RegisterFormer(directories, members, elected) ==
    /\ faults > 0 /\ epoch = 0 /\ directories \in {online \cup failed, online \cup failed \cup lost}
    /\ registered' = directories /\ controllerEpoch' = controllerEpoch + 1 /\ fenced' = TRUE
    /\ <<members, elected>> \in Gone /\ isr' = members /\ leader' = elected /\ faults' = faults - 1
    /\ UNCHANGED <<assigned, process, disks, replica, metadata, queue, net, accepted, shadow>>

\* The controller handles a late copy of the process's registration. The process keeps its epoch.
RegisterAgain ==
    /\ faults > 0 /\ epoch # 0 /\ registered # online \cup failed
    /\ registered' = online \cup failed /\ faults' = faults - 1
    /\ UNCHANGED <<controllerEpoch, fenced, partition, process, disks, replica, metadata, queue, net, accepted, shadow>>

-----------------------------------------------------------------------------
\* The broker's process and disks.

\* "The current behavior of the broker is to shutdown when no log directories are online."
Crash ==
    /\ up /\ (faults > 0 \/ online = {})
    /\ up' = FALSE /\ epoch' = 0 /\ faults' = IF online = {} THEN faults ELSE faults - 1
    /\ feed' = <<>> /\ seen' = "unpublished"
    /\ want' = "none" /\ flying' = "none" /\ answer' = "none" /\ sent' = "none"
    /\ creating' = "none" /\ move' = "none" /\ accepted' = "none"
    /\ UNCHANGED <<registration, partition, disks, place, future, net, shadow>>

\* The process starts. An administrator may have replaced the lost directories by empty ones.
Start(replaces, new) ==
    LET down == failed \cup lost IN
    /\ ~up
    /\ replaces => down # {} /\ Cardinality(new) <= Cardinality(down)
    /\ new \subseteq spare /\ (~replaces => new = {}) /\ online \cup new # {}
    /\ up' = TRUE /\ online' = online \cup new /\ failed' = {} /\ spare' = spare \ new
    /\ lost' = IF replaces THEN {} ELSE down
    /\ place' = IF place \in online THEN place ELSE "none"
    /\ future' = IF future \in online THEN future ELSE "none"
    /\ shadow' = IF replaces THEN "none"
                 ELSE IF place \in down /\ assigned \in {place, "lost"} THEN place ELSE shadow
    /\ UNCHANGED <<registration, partition, epoch, move, creating, metadata, queue, net, faults, accepted>>

\* The move of a replica whose directory fails: (1) the future replica's, (2) the current replica's.
IsMoving == move \in {"copying", "asking", "accepted"}
IsUnsent == want = future /\ flying = "none" /\ sent = "none"  \* The controller cannot have the target.

DirectoryFails(directory) ==
    /\ faults > 0 /\ directory \in online
    /\ online' = online \ {directory} /\ failed' = failed \cup {directory} /\ faults' = faults - 1
    /\ IF IsMoving /\ directory \in {place, future}
       THEN /\ move' = IF directory = future THEN "none" ELSE "left"
            /\ future' = IF directory = future THEN "none" ELSE future
            /\ LET correction == IF directory = future THEN place ELSE "lost"
                   forgets == IF directory = future THEN "forgets to revert" ELSE "forgets the lost source"
               IN want' = IF move = "copying" \/ forgets \in Broken THEN IF want = future THEN "none" ELSE want
                          ELSE IF IsUnsent /\ seen = place THEN "none" ELSE correction
       ELSE /\ future' = IF directory = future THEN "none" ELSE future
            /\ UNCHANGED <<move, want>>
    /\ UNCHANGED <<registration, partition, process, lost, spare, place, creating, metadata, flying, answer, sent>>
    /\ UNCHANGED <<net, accepted, shadow>>

-----------------------------------------------------------------------------
\* The broker compares its replica with the metadata ("Broker catch-up" of KIP-858).

\* The queue of assignments after new metadata.
SentAfter(now) == IF now = "none" \/ sent = now THEN "none" ELSE sent
IsAsked == move = "asking" /\ want = future
WantAfter(now) ==
    IF now = "none" \/ (want = now /\ SentAfter(now) \in {"none", want} /\ ~IsAsked) THEN "none" ELSE want

HasOffline == failed \cup lost # {}
Kind(now) == IF now = "unassigned" THEN now ELSE IF now \in online THEN "online" ELSE "unknown"
IsFailed == place # "none" /\ place \notin online
IsWithheld(now) ==
    \/ IsFailed
    \/ Kind(now) = "unknown" /\ HasOffline /\ "fills the online directories" \notin Broken

\* The replica, and the assignment that the broker queues, after it has published the assignment `now`.
Stopped == <<"none", "none", "none", "none", "none">>
Kept == <<place, future, move, creating, "none">>
WithAssignment == <<place, future, move, creating, place>>
Compared(now) ==
    LET found == IF move = "none" THEN future ELSE "none" IN
    IF now = "none" THEN Stopped
    \* The controller has a directory that looks online, so it must learn that the replica is offline.
    ELSE IF IsFailed /\ Kind(now) # "unknown" /\ "withholds a failed replica" \notin Broken THEN WithAssignment
    ELSE IF creating # "none" \/ move \in {"asking", "accepted"} \/ IsWithheld(now) THEN Kept
    ELSE IF place = now /\ found = "none" THEN Kept
    ELSE IF move = "copying" THEN
        IF place # now /\ future # now THEN WithAssignment ELSE Kept
    ELSE IF place = "none" THEN
        IF found = "none" THEN <<place, future, move, IF now \in online THEN now ELSE "any", "none">>
        ELSE IF found = now THEN <<found, "none", "none", "none", "none">>
        ELSE IF now \in online THEN <<place, "none", "none", now, "none">>
        ELSE <<found, "none", "none", "none", found>>
    ELSE IF found = "none" THEN WithAssignment
    ELSE IF found = now THEN <<place, future, "accepted", creating, "none">>
    ELSE <<place, future, "copying", creating, IF place = now THEN "none" ELSE place>>

Compare(now) ==
    /\ seen' = now /\ sent' = SentAfter(now)
    /\ LET result == Compared(now) IN
       /\ place' = result[1] /\ future' = result[2] /\ move' = result[3] /\ creating' = result[4]
       /\ want' = IF result[5] # "none" THEN result[5] ELSE WantAfter(now)

\* The broker publishes the next metadata; it may pass over changes.
Publish(k) ==
    /\ up /\ k \in DOMAIN feed
    /\ Compare(feed[k]) /\ feed' = SubSeq(feed, k + 1, Len(feed))
    /\ UNCHANGED <<registration, partition, process, disks, flying, answer, net, faults, accepted, shadow>>

\* The broker publishes another change of the partition.
PublishOther ==
    /\ faults > 0 /\ up /\ seen # "unpublished"
    /\ Compare(seen) /\ faults' = faults - 1
    /\ UNCHANGED <<registration, partition, process, disks, feed, flying, answer, net, accepted, shadow>>

Create(directory) ==
    /\ creating # "none" /\ directory \in online /\ creating \in {"any", directory}
    /\ place' = directory /\ creating' = "none"
    /\ want' = IF seen # directory THEN directory ELSE want
    /\ UNCHANGED <<registration, partition, process, disks, future, move, metadata, flying, answer, sent, net, faults>>
    /\ UNCHANGED <<accepted, shadow>>

\* The directory of the new replica has failed.
CreateFails ==
    /\ creating # "none" /\ failed # {} /\ (creating = "any" \/ creating \in failed)
    /\ creating' = "none"
    /\ UNCHANGED <<registration, partition, process, disks, place, future, move, metadata, queue, net, faults>>
    /\ UNCHANGED <<accepted, shadow>>

-----------------------------------------------------------------------------
\* The broker's assignments.

IsObsolete == seen = "none" \/ (seen = want /\ sent \in {"none", want} /\ ~IsAsked)

Send ==
    /\ up /\ epoch # 0 /\ want # "none" /\ flying = "none" /\ ~IsObsolete
    /\ flying' = want /\ sent' = want /\ want' = "none" /\ answer' = "none"
    /\ net' = NetWith([directory |-> want, epoch |-> epoch])
    /\ UNCHANGED <<registration, partition, process, disks, replica, metadata, faults, accepted, shadow>>

Drop ==
    /\ want # "none" /\ flying = "none" /\ IsObsolete
    /\ want' = "none" /\ move' = IF IsAsked THEN "copying" ELSE move
    /\ UNCHANGED <<registration, partition, process, disks, place, future, creating, metadata, flying, answer, sent>>
    /\ UNCHANGED <<net, faults, accepted, shadow>>

WantAgain == IF want = "none" /\ "sends once" \notin Broken THEN flying ELSE want

TakeAnswer ==
    /\ answer # "none"
    /\ flying' = "none" /\ answer' = "none"
    /\ want' = IF answer = "refused" THEN WantAgain ELSE want
    /\ sent' = IF answer = "gone" THEN "none" ELSE sent
    /\ move' = IF move = "asking" /\ flying = future /\ want # future
               THEN CASE answer = "accepted" -> "accepted" [] answer = "gone" -> "copying" [] OTHER -> move
               ELSE move
    /\ UNCHANGED <<registration, partition, process, disks, place, future, creating, metadata, net, faults>>
    /\ UNCHANGED <<accepted, shadow>>

\* The request or its answer is lost, or late. "The broker retries these until it receives a successful reply."
TimeOut ==
    /\ faults > 0 /\ flying # "none"
    /\ flying' = "none" /\ answer' = "none" /\ want' = WantAgain /\ faults' = faults - 1
    /\ UNCHANGED <<registration, partition, process, disks, replica, metadata, sent, net, accepted, shadow>>

-----------------------------------------------------------------------------
\* Moves of the replica to another directory (AlterReplicaLogDirs).

Begin(target) ==
    /\ faults > 0 /\ up /\ seen \notin {"unpublished", "none"} /\ move = "none" /\ creating = "none" /\ future = "none"
    /\ place \in online /\ target \in online \ {place} /\ ~HasOffline
    /\ future' = target /\ move' = "copying" /\ faults' = faults - 1
    /\ UNCHANGED <<registration, partition, process, disks, place, creating, metadata, queue, net, accepted, shadow>>

\* The future replica has caught up. "Instead of immediately promoting the future replica, the broker will
\* asynchronously communicate the log directory change to the controller."
CatchUp ==
    /\ move = "copying" /\ "promotes at once" \notin Broken
    /\ move' = "asking" /\ want' = future
    /\ UNCHANGED <<registration, partition, process, disks, place, future, creating, metadata, flying, answer, sent>>
    /\ UNCHANGED <<net, faults, accepted, shadow>>

Promote ==
    /\ move = "accepted" \/ (move = "copying" /\ "promotes at once" \in Broken)
    /\ place' = future /\ future' = "none" /\ move' = "none"
    /\ want' = IF seen \notin {future, "none"} THEN future ELSE want
    /\ UNCHANGED <<registration, partition, process, disks, creating, metadata, flying, answer, sent, net, faults>>
    /\ UNCHANGED <<accepted, shadow>>

\* The administrator chooses the source again.
Cancel ==
    /\ faults > 0 /\ IsMoving
    /\ move' = "none" /\ future' = "none" /\ faults' = faults - 1
    /\ want' = IF move = "copying" THEN want
               ELSE IF IsUnsent /\ seen = place THEN "none" ELSE place
    /\ UNCHANGED <<registration, partition, process, disks, place, creating, metadata, flying, answer, sent, net>>
    /\ UNCHANGED <<accepted, shadow>>

-----------------------------------------------------------------------------
Replicas == {"b", "o"}
Leaders == {"b", "o", "none"}
Longest == 8

Next ==
    \/ \E members \in SUBSET Replicas, elected \in Leaders : Elect(members, elected)
    \/ \E members \in SUBSET Replicas, elected \in Leaders : Fence(members, elected)
    \/ Unfence
    \/ \E directories \in SUBSET AllDirs, elected \in Leaders : DirectoriesOffline(directories, elected)
    \/ \E k \in 1..Longest, members \in SUBSET Replicas, elected \in Leaders : Assign(k, members, elected)
    \/ \E k \in 1..Longest, error \in {"refused", "gone"} : Refuse(k, error)
    \/ \E elected \in Leaders : RemoveReplica(elected)
    \/ \E directory \in Assignments, members \in SUBSET Replicas, elected \in Leaders :
          AddReplica(directory, members, elected)
    \/ \E members \in SUBSET Replicas, elected \in Leaders : Register(members, elected)
    \/ \E directories \in SUBSET AllDirs, members \in SUBSET Replicas, elected \in Leaders :
          RegisterFormer(directories, members, elected)
    \/ RegisterAgain \/ Crash
    \/ \E replaces \in BOOLEAN, new \in SUBSET Spares : Start(replaces, new)
    \/ \E directory \in AllDirs : DirectoryFails(directory)
    \/ \E k \in 1..Longest : Publish(k)
    \/ PublishOther
    \/ \E directory \in AllDirs : Create(directory)
    \/ CreateFails
    \/ Send \/ Drop \/ TakeAnswer \/ TimeOut
    \/ \E target \in AllDirs : Begin(target)
    \/ CatchUp \/ Promote \/ Cancel

AssignCurrent == \E k \in DOMAIN net, members \in SUBSET Replicas, elected \in Leaders :
    IsCurrent(k) /\ Assign(k, members, elected)

\* The processes go on; the environment need not do anything.
Fairness ==
    /\ WF_vars(\E replaces \in BOOLEAN, new \in SUBSET Spares : Start(replaces, new))
    /\ WF_vars(\E members \in SUBSET Replicas, elected \in Leaders : Register(members, elected))
    /\ WF_vars(online = {} /\ Crash) /\ WF_vars(Unfence)
    /\ WF_vars(\E elected \in Leaders : DirectoriesOffline(registered \ online, elected))
    /\ WF_vars(AssignCurrent)
    /\ WF_vars(\E k \in DOMAIN net, error \in {"refused", "gone"} : Refuse(k, error))
    /\ WF_vars(Publish(Len(feed)))
    /\ WF_vars(\E directory \in AllDirs : Create(directory))
    /\ WF_vars(CreateFails)
    /\ WF_vars(Send) /\ WF_vars(Drop) /\ WF_vars(TakeAnswer)
    /\ WF_vars(CatchUp) /\ WF_vars(Promote)

Spec == Init /\ [][Next]_vars
FairSpec == Spec /\ Fairness

-----------------------------------------------------------------------------
\* Safety.

\* "Replicas will also be considered offline if the replica references a log directory UUID that is not present in the
\* hosting Broker's latest registration under LogDirs"
NoLeaderInOfflineDirectory == leader = "b" => IsOnline(assigned, registered)

\* "But when the future replica first catches up with the main replica, instead of immediately promoting the future
\* replica, the broker will: asynchronously communicate the log directory change to the controller"
NotImmediatelyPromoted ==
    [][(place \in online /\ place' # place /\ place' # "none") => place' \in {accepted, seen}]_vars

\* "we don't want to fill the remaining online log directories with replicas that existed in the offline ones"
OnlineDirectoriesAreNotFilled ==
    [][place = "none" /\ creating # "none" /\ place' # "none" => shadow = "none"]_vars

IsRequested(directory) == \E k \in DOMAIN net : net[k] = [directory |-> directory, epoch |-> controllerEpoch]

\* "BrokerEpoch: The epoch of the requesting broker"
EpochOfRequestingBroker ==
    [][assigned # "none" /\ assigned' \in Reported \ {assigned} => IsRequested(assigned')]_vars

\* Liveness: the environment's events end.

\* "The broker retries these until it receives a successful reply"
RetriedUntilSuccessfulReply == <>[](up => want = "none" /\ flying = "none")

\* "the broker uses the new RPC — AssignReplicasToDirs — to the controller to change the metadata assignment to the actual
\* log directory"; "If there are offline log directories, no action is taken"
ActualDirectoryIsAssigned ==
    <>[](up /\ place \in online /\ assigned # "none" => assigned = place \/ IsWithheld(assigned))

\* "this lets the Controller know that it needs to update leadership and ISR for this partition too"
ControllerUpdatesLeadership == <>[](up /\ place # "none" /\ place \notin online => leader # "b")
===============================================================================
