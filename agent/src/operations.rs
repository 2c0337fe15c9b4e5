//! Who owns the work: one worker a module, detached from every caller.
//!
//! A caller only watches. Losing it changes nothing; asking for the same operation id again gives the events so far, the
//! rest, and the same end. Two operations on one module queue.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use plumbline::proto::v1::apply_response::Event;
use plumbline::proto::v1::{ApplyRequest, ApplyResponse, Failure, Phase, RemoveRequest, RemoveResponse};
use prost::Message as _;
use tokio::sync::{OnceCell, OwnedMutexGuard, watch};
use tokio_stream::Stream;

use crate::apply::{
    Applied, ApplyError, apply, cut_off, discard_kept, presentable, recover, recover_by_labels,
};
use crate::claim::Claim;
use crate::engine::Engine;
use crate::removal;
use crate::secrets::Secrets;
use crate::settings::Settings;
use crate::state::State;

mod reporter;

use reporter::{Reporter, progress};

/// How many ended operations are remembered for callers that ask again.
const REMEMBERED: usize = 256;

/// How long recovery waits before it tries again: at first, and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// How often is looked whether the original of moved data may go.
const BETWEEN_DISCARDS: Duration = Duration::from_secs(3600);

/// All operations of this agent.
#[derive(Debug)]
pub struct Operations {
    engine: Engine,
    state: Arc<State>,
    installation: String,
    settings: Settings,
    /// The engine is this agent's alone.
    claim: OnceCell<Claim>,
    inner: Mutex<Inner>,
    /// How many removals are under way.
    removals: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct Inner {
    operations: HashMap<String, Arc<Operation>>,
    /// Ids by age, for forgetting.
    ages: VecDeque<String>,
    modules: HashMap<String, Arc<tokio::sync::Mutex<()>>>,
}

#[derive(Debug)]
struct Operation {
    id: String,
    /// The request, to tell the same question from another one under the same id.
    request: Vec<u8>,
    events: Mutex<Vec<ApplyResponse>>,
    /// How many events there are, and whether that is all.
    seen: watch::Sender<(usize, bool)>,
}

impl Operation {
    fn push(&self, event: Event, last: bool) {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        events.push(ApplyResponse { operation_id: self.id.clone(), event: Some(event) });
        self.seen.send_replace((events.len(), last));
    }

    fn is_over(&self) -> bool {
        self.seen.borrow().1
    }
}

/// The events of one operation, from its first to its last.
pub type Events = Pin<Box<dyn Stream<Item = ApplyResponse> + Send>>;

/// The id is taken by another request.
#[derive(Debug, thiserror::Error)]
#[error("the operation id {0} was used for another request: choose a new one for each apply")]
pub struct IdTaken(String);

impl Operations {
    /// For one engine.
    pub fn new(engine: Engine, state: Arc<State>, installation: &str, settings: Settings) -> Self {
        let installation = installation.to_owned();
        let (inner, removals) = (Mutex::default(), watch::Sender::new(0));
        Self { engine, state, installation, settings, claim: OnceCell::new(), inner, removals }
    }

    /// Claims the engine for this agent, if that has not been done. Nothing is changed there before.
    pub async fn claim(&self) -> Result<(), ApplyError> {
        self.claim.get_or_try_init(|| Claim::take(&self.engine, &self.installation)).await.map(drop)
    }

    /// Starts an operation, or finds the one that has this id already, and watches it.
    pub fn apply(self: &Arc<Self>, request: ApplyRequest) -> Result<Events, IdTaken> {
        let encoded = request.encode_to_vec();
        let (operation, is_new, module) = {
            let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            let name = request.spec.as_ref().map(|spec| spec.name().to_owned()).unwrap_or_default();
            let module = inner.modules.entry(name).or_default().clone();
            match inner.operations.get(&request.operation_id) {
                Some(known) if known.request == encoded => (known.clone(), false, module),
                Some(_) => return Err(IdTaken(request.operation_id)),
                None => {
                    let operation = Arc::new(Operation {
                        id: request.operation_id.clone(),
                        request: encoded,
                        events: Mutex::default(),
                        seen: watch::Sender::new((0, false)),
                    });
                    inner.operations.insert(operation.id.clone(), operation.clone());
                    inner.ages.push_back(operation.id.clone());
                    inner.forget();
                    (operation, true, module)
                }
            }
        };
        if is_new {
            operation.push(Event::Progress(progress(Phase::Accepted, "", "")), false);
            tokio::spawn(Self::work(self.clone(), operation.clone(), queue(module), request));
        }
        Ok(watch_events(operation))
    }

    /// Ends what earlier applies left when they were cut off. Each module is recovered before anything else is done with it.
    ///
    /// What goes on beside all else ends with this agent: while it sleeps it keeps neither its data nor its engine from the
    /// next one.
    pub fn recover_all(self: &Arc<Self>) {
        for module in self.state.journal().unfinished().unwrap_or_default() {
            self.recover(&module);
        }
        let this = Arc::downgrade(self);
        tokio::spawn(async move {
            while let Some(this) = this.upgrade() {
                this.discard_kept().await;
                drop(this);
                tokio::time::sleep(BETWEEN_DISCARDS).await;
            }
        });
        // Where a journal is lost, the names of containers tell.
        let this = Arc::downgrade(self);
        tokio::spawn(async move {
            let mut pause = FIRST_PAUSE;
            while let Some(this) = this.upgrade() {
                match cut_off(&this.engine, &this.installation).await {
                    Ok(modules) => {
                        for module in modules {
                            this.recover(&module);
                        }
                        return;
                    }
                    Err(error) => tracing::debug!(%error, "cannot look for what was cut off yet"),
                }
                drop(this);
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        });
    }

    /// Deletes originals of moved data whose time is over.
    async fn discard_kept(&self) {
        for module in self.state.modules() {
            if self.state.module(&module).kept.is_empty() {
                continue;
            }
            let _turn = self.turn(&module).await;
            if let Err(error) = discard_kept(&self.engine, &self.settings.files, &self.state, &module).await {
                tracing::warn!(module, %error, "the original of moved data cannot be deleted yet");
            }
        }
    }

    /// Goes on trying until what an apply of this module left is ended. Between two tries applies have their turn; they
    /// recover the module themselves, or say why it cannot be done.
    fn recover(self: &Arc<Self>, module: &str) {
        let (this, module) = (Arc::downgrade(self), module.to_owned());
        let lock = {
            let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            inner.modules.entry(module.clone()).or_default().clone()
        };
        let mut turn = queue(lock.clone());
        tokio::spawn(async move {
            let mut pause = FIRST_PAUSE;
            loop {
                {
                    let _turn = turn.await;
                    let Some(this) = this.upgrade() else { return };
                    match this.try_to_recover(&module).await {
                        Ok(()) => return,
                        Err(error) => tracing::warn!(module, %error, "what was cut off cannot be ended yet"),
                    }
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
                turn = queue(lock.clone());
            }
        });
    }

    async fn try_to_recover(&self, module: &str) -> Result<(), ApplyError> {
        let (engine, state, installation) = (&self.engine, &self.state, self.installation.as_str());
        self.claim().await?;
        if let Some(recovered) =
            recover(engine, state, &self.settings.files, (installation, module), true).await?
        {
            tracing::info!(module, %recovered, "recovered");
        }
        let back = recover_by_labels(engine, state, &self.settings.files, (installation, module)).await?;
        if !back.is_empty() {
            tracing::info!(module, containers = back.join(", "), "recovered by labels");
        }
        Ok(())
    }

    async fn work(self: Arc<Self>, operation: Arc<Operation>, turn: Turn, request: ApplyRequest) {
        let _turn = turn.await;
        let secrets = request.spec.as_ref().map(Secrets::of).unwrap_or_default();
        let module = request.spec.as_ref().map(|spec| spec.name().to_owned());
        let reporter = Reporter { operation: operation.clone(), secrets: secrets.clone() };
        // In a task of its own, so that a fault in it still ends the operation for those who watch.
        let this = self.clone();
        let work = tokio::spawn(async move {
            let Self { engine, state, installation, settings, .. } = &*this;
            let applied = match this.claim().await {
                Ok(()) => apply(engine, state, installation, settings, &request, &reporter).await,
                Err(error) => Applied { result: None, error: Some(error) },
            };
            let reached = applied.result.map(|mut result| {
                for object in &mut result.objects {
                    object.detail = secrets.mask(&object.detail);
                    object.failure = object.failure.take().map(|failure| presentable(failure, &secrets));
                }
                result
            });
            match applied.error {
                None => Event::Result(reached.unwrap_or_default()),
                Some(error) => Event::Failure(Failure {
                    code: error.code() as i32,
                    message: secrets.mask(&error.to_string()),
                    reached,
                    rolled_back: error.rolled_back(),
                }),
            }
        });
        let end = work.await.unwrap_or_else(|error| Event::Failure(fault(&error)));
        operation.push(end, true);
        if let Some(module) = module
            && self.state.journal().read(&module).is_ok_and(|left| left.is_some())
        {
            self.recover(&module);
        }
    }

    /// Removes a module, after its other operations. It goes on to its end when the caller leaves.
    pub async fn remove(self: &Arc<Self>, request: RemoveRequest) -> Result<RemoveResponse, ApplyError> {
        let this = self.clone();
        self.removals.send_modify(|count| *count += 1);
        let under_way = UnderWay(self.clone());
        let work = tokio::spawn(async move {
            let _under_way = under_way;
            let _turn = this.turn(&request.module).await;
            this.claim().await?;
            removal::remove(&this.engine, &this.state, &this.installation, &request).await
        });
        work.await.unwrap_or_else(|error| {
            let failure = Some(fault(&error));
            Ok(RemoveResponse { failure, ..RemoveResponse::default() })
        })
    }

    /// Waits until nothing is being applied or removed.
    pub async fn idle(&self) {
        let all: Vec<_> = {
            let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            inner.operations.values().filter(|operation| !operation.is_over()).cloned().collect()
        };
        if !all.is_empty() {
            tracing::info!(operations = all.len(), "waiting for what is being applied");
        }
        for operation in all {
            let _ = operation.seen.subscribe().wait_for(|(_, last)| *last).await;
        }
        let _ = self.removals.subscribe().wait_for(|count| *count == 0).await;
    }

    /// Waits for the module's other operations, for work that is not an apply.
    pub async fn turn(&self, module: &str) -> OwnedMutexGuard<()> {
        let module = {
            let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            inner.modules.entry(module.to_owned()).or_default().clone()
        };
        module.lock_owned().await
    }
}

/// What ended for a fault of ours.
fn fault(error: &tokio::task::JoinError) -> Failure {
    Failure {
        code: tonic::Code::Internal as i32,
        message: format!("a fault in the agent ({error}); plan again to see in which state the host is"),
        reached: None,
        rolled_back: false,
    }
}

/// A removal that is under way, until it is dropped.
struct UnderWay(Arc<Operations>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.removals.send_modify(|count| *count -= 1);
    }
}

/// Ready when all that was queued before on the same module is over.
type Turn = Pin<Box<dyn Future<Output = OwnedMutexGuard<()>> + Send>>;

/// Takes a place in a module's queue now, so that what a caller sends first is done first. A lock has a place only once
/// it was polled, and tasks are polled in any order.
fn queue(module: Arc<tokio::sync::Mutex<()>>) -> Turn {
    let mut turn = Box::pin(module.lock_owned());
    match (&mut turn).now_or_never() {
        Some(free) => Box::pin(std::future::ready(free)),
        None => turn,
    }
}

impl Inner {
    fn forget(&mut self) {
        while self.ages.len() > REMEMBERED {
            let Some(position) =
                self.ages.iter().position(|id| self.operations.get(id).is_none_or(|one| one.is_over()))
            else {
                return;
            };
            if let Some(id) = self.ages.remove(position) {
                self.operations.remove(&id);
            }
        }
    }
}

fn watch_events(operation: Arc<Operation>) -> Events {
    let mut seen = operation.seen.subscribe();
    Box::pin(async_stream::stream! {
        let mut next = 0;
        loop {
            let (count, last) = *seen.borrow_and_update();
            while next < count {
                let event = operation.events.lock().unwrap_or_else(PoisonError::into_inner).get(next).cloned();
                if let Some(event) = event {
                    yield event;
                }
                next += 1;
            }
            if last || seen.changed().await.is_err() {
                return;
            }
        }
    })
}
